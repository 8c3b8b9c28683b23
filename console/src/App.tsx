import { useQuery } from "@tanstack/react-query";
import { Navigate, Outlet, rootRouteId, useLocation, useMatches } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { ApiError } from "./api/client";
import { queries } from "./api/queries";
import type { Me } from "./api/types";
import { Layout } from "./components/Layout";
import { isOwn } from "./components/navigation";
import { ErrorState, Skeleton } from "./components/States";
import { Toasts } from "./components/Toast";
import { isSignedIn, canView, MeContext } from "./session";

const SignIn = lazy(() => import("./screens/SignIn"));
const NotAllowed = lazy(() => import("./screens/NotAllowed"));
const SignInAgain = lazy(() => import("./screens/SignInAgain"));

/** Loads the signed-in caller and shows the screens, or the sign-in form. */
export function App() {
  const me = useQuery(queries.me());
  return (
    <>
      <Screen {...me} />
      <Toasts />
    </>
  );
}

function Screen({ data: me, error, refetch, isPending }: Pick<ReturnType<typeof useQuery<Me>>, "data" | "error" | "refetch" | "isPending">) {
  useFocusOnNavigation();
  const refused = error instanceof ApiError && error.status === 401;
  const [signedInAs, setSignedInAs] = useState<Me>(); // kept after the sign-in expires, so the page stays in place; signing out reloads it
  if (me && isSignedIn(me) && (me.caller !== signedInAs?.caller || me.role !== signedInAs.role)) setSignedInAs(me);
  const hasEnded = refused || me?.role === "anonymous";
  const here = me && isSignedIn(me) ? me : hasEnded ? signedInAs : undefined;
  if (here) {
    return (
      <MeContext value={here}>
        <Layout me={here}>
          <CurrentScreen me={here} />
        </Layout>
        {hasEnded && (
          <Suspense>
            <SignInAgain />
          </Suspense>
        )}
      </MeContext>
    );
  }
  if (hasEnded) return <SignInScreen />;
  if (isPending) return <Waiting />;
  return <ErrorState error={error} onRetry={() => void refetch()} />;
}

/** The layout while the caller is loading. index.html has the same markup. */
function Waiting() {
  return (
    <div className="Layout">
      <div className="Layout-sidebar" />
      <div className="Layout-top" />
      <div className="Layout-main">
        <div className="Page"><Skeleton lines={4} /></div>
      </div>
    </div>
  );
}

/** The current route's screen, if the caller may view it. */
function CurrentScreen({ me }: { me: Me }) {
  const route = useMatches({ select: (matches) => matches.at(-1)?.routeId ?? "" });
  if (canView(me) || isOwn(route) || route === rootRouteId) return <Outlet />;
  if (route === "/") return <Navigate to="/calls" replace />;
  return (
    <Suspense>
      <NotAllowed me={me} />
    </Suspense>
  );
}

function SignInScreen() {
  return (
    <Suspense>
      <SignIn />
    </Suspense>
  );
}

/** Moves the focus to a new screen, so that screen readers start at its top. */
function useFocusOnNavigation() {
  const path = useLocation({ select: (location) => location.pathname });
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else document.getElementById("main")?.focus({ preventScroll: true });
  }, [path]);
}
