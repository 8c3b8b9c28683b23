import { CSPProvider } from "@base-ui/react/csp-provider";
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { signIn } from "./api/actions";
import { takeAuthorizationResponse } from "./api/authorization";
import { ApiError } from "./api/client";
import { takeIssuerResponse } from "./api/issuer";
import { queries } from "./api/queries";
import { router } from "./router";
import { takeSignInLink } from "./session";
import { showTheme } from "./theme";
import "./styles/tokens.css";
import "./styles/base.css";

const client: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: (error, query) => query.queryKey[0] !== "me" && refetchMe(error) }),
  mutationCache: new MutationCache({ onError: refetchMe }),
  defaultOptions: {
    queries: { retry: (times, error) => times < 2 && isTransient(error), refetchOnWindowFocus: true },
  },
});

/** Reloads the caller when a request reports that the sign-in has expired. */
function refetchMe(error: unknown) {
  if (error instanceof ApiError && error.status === 401) void client.invalidateQueries({ queryKey: ["me"] });
}

/** Reports whether a retry may succeed: the yard is unreachable or busy. */
function isTransient(error: unknown): boolean {
  return !(error instanceof ApiError) || error.status === 0 || error.status === 429 || error.status >= 500;
}

/** After an upgrade of the yard, a chunk fails to load: reload the page once. */
window.addEventListener("vite:preloadError", (event) => {
  const last = Number(sessionStorage.getItem("toolyard.reloaded") ?? 0);
  if (!navigator.onLine || Date.now() - last < 10_000) return;
  event.preventDefault();
  sessionStorage.setItem("toolyard.reloaded", String(Date.now()));
  window.location.reload();
});

async function start() {
  showTheme();
  takeAuthorizationResponse(); // before the sign-in link, because an authorization server must not be able to send one
  const { token, refused } = takeSignInLink();
  const failed = (error: unknown) => client.setQueryData(["signin", "failed"], error);
  const person = await takeIssuerResponse().catch((error: unknown) => void failed(new Error(error instanceof Error ? error.message : String(error))));
  if (person) client.setQueryData(queries.me().queryKey, person);
  if (refused) failed(new Error("Sign-in links with an API key are not accepted. If this is your key, paste it below."));
  if (token) await signIn(token).then((me) => client.setQueryData(queries.me().queryKey, me), failed);
  createRoot(document.getElementById("root")!).render(
    <StrictMode>
      <CSPProvider disableStyleElements>
        <QueryClientProvider client={client}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </CSPProvider>
    </StrictMode>,
  );
}

void start();
