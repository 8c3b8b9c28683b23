import { useQuery } from "@tanstack/react-query";
import { Outlet, useLocation } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { ApiError } from "./api/client";
import { queries } from "./api/queries";
import type { Me } from "./api/types";
import { Layout } from "./components/Layout";
import { ErrorState, Skeleton } from "./components/States";
import { Toasts } from "./components/Toast";
import { maySee } from "./session";

const SignIn = lazy(() => import("./screens/SignIn"));
const SignInAgain = lazy(() => import("./screens/SignInAgain"));

/** Asks who is there, and shows the yard to those who may see it, the sign-in to the others. */
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
  const [was, setWas] = useState<Me>(); // who was here since the page was loaded; signing out loads it anew
  if (me && maySee(me) && me.caller !== was?.caller) setWas(me);
  const ended = refused || me?.role === "anonymous";
  const here = me && maySee(me) ? me : ended ? was : undefined;
  if (here) {
    return (
      <>
        <Layout me={here}>
          <Outlet />
        </Layout>
        {ended && (
          <Suspense>
            <SignInAgain />
          </Suspense>
        )}
      </>
    );
  }
  if (refused) return <Door />;
  if (me) return <Door />;
  if (isPending) return <div className="Page"><Skeleton lines={4} /></div>;
  return <ErrorState error={error} onRetry={() => void refetch()} />;
}

function Door() {
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
