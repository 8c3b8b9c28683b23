import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { LogIn, Wrench } from "lucide-react";
import { type FormEvent, useState } from "react";
import { signIn } from "../api/actions";
import { ApiError } from "../api/client";
import { leaveToSignIn } from "../api/issuer";
import { queries } from "../api/queries";
import type { Me } from "../api/types";
import { Button } from "../components/Button";
import { Code } from "../components/Code";
import { TextField } from "../components/Field";
import { ErrorNote } from "../components/States";
import "./SignIn.css";

const command = "toolyard keys create --name console --caller YOU --scope operator --scope write";

export default function SignIn() {
  const known = useQueryClient().getQueryData<Me>(queries.me().queryKey);
  return (
    <main className="SignIn">
      <div className="SignIn-card">
        <span className="SignIn-logo" aria-hidden="true"><Wrench /></span>
        <h1>Sign in{known?.yard ? ` to ${known.yard}` : ""}</h1>
        <p className="soft">With any key, you can view its account's calls and spend. With the <code>viewer</code> scope, you can view the whole yard; with the <code>operator</code> scope, you can also change it.</p>
        {location.pathname.startsWith("/console/connections") && <p>To connect to a server, first sign in as the caller that your client uses. You then return to this page.</p>}
        <SignInForm fresh />
        <NoKey keys={known?.keys !== false} />
      </div>
    </main>
  );
}

/**
 * Signs in with a key. The key itself is not stored: the yard returns a cookie and a page secret.
 * If fresh is set, a previous caller's cached data is discarded.
 */
export function SignInForm({ fresh = false }: { fresh?: boolean }) {
  const client = useQueryClient();
  const known = client.getQueryData<Me>(queries.me().queryKey);
  const linkError = client.getQueryData<Error>(["signin", "failed"]);
  const [key, setKey] = useState("");
  const enter = useMutation({
    mutationFn: (value: string) => signIn(value),
    onSuccess: (me) => {
      if (fresh || me.caller !== known?.caller || me.role !== known.role) client.removeQueries({ predicate: (query) => query.queryKey[0] !== "me" });
      client.setQueryData(queries.me().queryKey, me);
      void client.invalidateQueries();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const value = key.trim();
    if (value !== "") enter.mutate(value);
  };
  return (
    <div className="stack">
      {!enter.error && <ErrorNote error={linkError && messageOf(linkError)} />}
      <IssuerButtons />
      <form className="stack" onSubmit={submit}>
        <TextField label="Key" type="password" value={key} onChange={setKey} placeholder="ty_…" autoComplete="current-password" spellCheck={false} autoFocus mono maxLength={500} />
        <ErrorNote error={enter.error && messageOf(enter.error)} />
        <Button type="submit" variant="primary" busy={enter.isPending} disabled={key.trim() === ""}>Sign in</Button>
      </form>
    </div>
  );
}

/** A button for each issuer that people can sign in with. Issuers send people back only to the yard's URL. */
function IssuerButtons() {
  const { data } = useQuery(queries.signIn());
  const leave = useMutation({ mutationFn: leaveToSignIn });
  if (!data || data.issuers.length === 0) return null;
  const elsewhere = data.url !== undefined && data.url !== location.origin ? `${data.url}/console/` : undefined;
  return (
    <div className="stack-s">
      {elsewhere ? (
        <p className="soft">To sign in with {data.issuers.join(" or ")}, open <a href={elsewhere}>{elsewhere}</a>.</p>
      ) : (
        data.issuers.map((issuer) => (
          <Button key={issuer} icon={<LogIn />} busy={leave.isPending && leave.variables === issuer} onClick={() => leave.mutate(issuer)}>Sign in with {issuer}</Button>
        ))
      )}
      <ErrorNote error={leave.error} />
      <p className="SignIn-or"><span>or with an API key</span></p>
    </div>
  );
}

function NoKey({ keys }: { keys: boolean }) {
  return (
    <div className="stack-s">
      <h2>No key yet?</h2>
      {keys ? (
        <>
          <p className="soft">Create one on the machine that runs the yard. It is shown only once.</p>
          <Code text={command} label="How to create a key" wrap />
        </>
      ) : (
        <p className="soft">API keys are not available because no store is configured. Open the sign-in link printed at startup, or add <code>store: sqlite:toolyard.db</code> to the configuration, restart the yard and create a key.</p>
      )}
    </div>
  );
}

function messageOf(error: Error): Error {
  if (error instanceof ApiError && error.status === 401) {
    return new Error("Invalid key. It may be mistyped, expired or revoked.");
  }
  return error;
}
