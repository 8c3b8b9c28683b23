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

/** Asks who is there, and shows what they may see of the yard; the sign-in to who is not known. */
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
  const [signedInAs, setSignedInAs] = useState<Me>(); // who was here since the page was loaded; signing out loads it anew
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

/** The frame while it is not known who is there. */
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

/** The screen of the address, if it is for who is here. */
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

/** Another screen takes the focus, so that it is read from its beginning. */
function useFocusOnNavigation() {
  const path = useLocation({ select: (location) => location.pathname });
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else document.getElementById("main")?.focus({ preventScroll: true });
  }, [path]);
}
