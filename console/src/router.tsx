import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { App } from "./App";
import { ErrorState, Skeleton } from "./components/States";
import { parseSearch, stringifySearch, texts } from "./search";

const root = createRootRoute({ component: App, notFoundComponent: lazyRouteComponent(() => import("./screens/NotFound")) });

const routes = [
  createRoute({ getParentRoute: () => root, path: "/", component: lazyRouteComponent(() => import("./screens/Overview")) }),
  createRoute({
    getParentRoute: () => root,
    path: "/catalog",
    validateSearch: texts("q", "category", "mode", "source", "price", "latency", "gate", "problem", "page", "group", "view"),
    component: lazyRouteComponent(() => import("./screens/Catalog")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/tools/$source/$name",
    validateSearch: texts("tab", "gate"),
    component: lazyRouteComponent(() => import("./screens/Tool")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/servers",
    validateSearch: texts("q", "state"),
    component: lazyRouteComponent(() => import("./screens/Servers")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/servers/$id",
    validateSearch: texts("tab", "tool"),
    component: lazyRouteComponent(() => import("./screens/Server")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/approvals",
    validateSearch: texts("view"),
    component: lazyRouteComponent(() => import("./screens/Approvals")),
  }),
  createRoute({ getParentRoute: () => root, path: "/packs", component: lazyRouteComponent(() => import("./screens/Packs")) }),
  createRoute({
    getParentRoute: () => root,
    path: "/toolsets",
    validateSearch: texts("q", "tab"),
    component: lazyRouteComponent(() => import("./screens/Toolsets")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/toolsets/$name",
    validateSearch: texts("tab", "q", "format", "gate"),
    component: lazyRouteComponent(() => import("./screens/Toolset")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/gates",
    validateSearch: texts("gate", "tab", "format", "q"),
    component: lazyRouteComponent(() => import("./screens/Gates")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/calls",
    validateSearch: texts("view", "account", "caller", "session", "server", "tool", "gate", "code", "failed", "parent", "since", "until"),
    component: lazyRouteComponent(() => import("./screens/Calls")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/calls/$id",
    validateSearch: texts("tab"),
    component: lazyRouteComponent(() => import("./screens/Call")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/queries",
    validateSearch: texts("outcome", "agent"),
    component: lazyRouteComponent(() => import("./screens/Queries")),
  }),
  createRoute({ getParentRoute: () => root, path: "/queries/$id", component: lazyRouteComponent(() => import("./screens/Query")) }),
  createRoute({
    getParentRoute: () => root,
    path: "/spend",
    validateSearch: texts("tab", "by", "account", "since", "until", "state", "q"),
    component: lazyRouteComponent(() => import("./screens/Spend")),
  }),
  createRoute({ getParentRoute: () => root, path: "/links", component: lazyRouteComponent(() => import("./screens/Links")) }),
  createRoute({ getParentRoute: () => root, path: "/connections", component: lazyRouteComponent(() => import("./screens/Connections")) }),
  createRoute({ getParentRoute: () => root, path: "/connections/$server", component: lazyRouteComponent(() => import("./screens/Connect")) }),
  createRoute({
    getParentRoute: () => root,
    path: "/limits",
    validateSearch: texts("q", "kind"),
    component: lazyRouteComponent(() => import("./screens/Limits")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/keys",
    validateSearch: texts("q", "state"),
    component: lazyRouteComponent(() => import("./screens/Keys")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/people",
    validateSearch: texts("q", "state", "issuer"),
    component: lazyRouteComponent(() => import("./screens/People")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/problems",
    validateSearch: texts("q"),
    component: lazyRouteComponent(() => import("./screens/Problems")),
  }),
  createRoute({
    getParentRoute: () => root,
    path: "/changes",
    validateSearch: texts("caller", "action", "subject"),
    component: lazyRouteComponent(() => import("./screens/Changes")),
  }),
] as const;

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: "/console",
  defaultPreload: "intent",
  parseSearch,
  stringifySearch,
  scrollRestoration: true,
  defaultPendingComponent: () => <div className="Page"><Skeleton lines={4} /></div>,
  defaultErrorComponent: ({ error, reset }) => <ErrorState error={error} onRetry={reset} />,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
