import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useLocation, useNavigate, useParams } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { enterKey, signInToServer } from "../api/actions";
import { ApiError } from "../api/client";
import { queries } from "../api/queries";
import type { ConnectionReview } from "../api/types";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { TextField } from "../components/Field";
import { Page } from "../components/Page";
import { ErrorNote, ErrorState, Skeleton } from "../components/States";
import { toast } from "../components/Toast";
import { visible } from "../format/visible";
import "./Connections.css";

/** Connects the signed-in caller to a server. The yard refuses links that were made for another caller. */
export default function Connect() {
  const { server } = useParams({ from: "/connections/$server" });
  const ticket = useLocation({ select: ({ hash }) => new URLSearchParams(hash.replace(/^#/, "")).get("ticket") ?? "" });
  const { data, error, refetch } = useQuery(queries.connectionReview(server, ticket));
  return (
    <Page title={`Connect ${server}`} above={<Link to="/connections">Connections</Link>}>
      <div className="Connect">
        <Card>{data ? <Agree review={data} ticket={ticket} /> : error ? <ErrorState error={error} title="Not connected" onRetry={mayRetry(error) ? () => void refetch() : undefined} /> : <Skeleton lines={4} />}</Card>
      </div>
    </Page>
  );
}

/** Reports whether the same request may succeed later. A link that was refused or used stays refused. */
const mayRetry = (error: unknown) => !(error instanceof ApiError) || error.status === 0 || error.status >= 500;

function Agree({ review, ticket }: { review: ConnectionReview; ticket: string }) {
  const { server, host, caller, scopes = [] } = review;
  return (
    <div className="stack">
      <p>This server's tools use your own account on the server.</p>
      <dl className="Connect-facts">
        <dt className="soft">Server</dt>
        <dd className="wrap-anywhere">{visible(server)}</dd>
        {host && <><dt className="soft">You sign in at</dt><dd className="wrap-anywhere strong">{visible(host)}</dd></>}
        <dt className="soft">For calls by</dt>
        <dd className="wrap-anywhere">{visible(caller)}</dd>
        {scopes.length > 0 && <><dt className="soft">Requested permissions</dt><dd className="wrap-anywhere">{visible(scopes.join(" "))}</dd></>}
      </dl>
      {review.key ? <KeyForm server={server} ticket={ticket} /> : <SignIn server={server} ticket={ticket} />}
    </div>
  );
}

function SignIn({ server, ticket }: { server: string; ticket: string }) {
  const leave = useMutation({ mutationFn: () => signInToServer(server, ticket), onSuccess: ({ address }) => location.assign(address) });
  return (
    <>
      <ErrorNote error={leave.error} />
      <div><Button variant="primary" busy={leave.isPending || leave.isSuccess} onClick={() => leave.mutate()}>Continue</Button></div>
    </>
  );
}

function KeyForm({ server, ticket }: { server: string; ticket: string }) {
  const client = useQueryClient();
  const navigate = useNavigate();
  const [key, setKey] = useState("");
  const save = useMutation({
    mutationFn: () => enterKey(server, ticket, key.trim()),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["connections", "list"] });
      toast.good(`Connected to ${server}. You can return to your client.`);
      await navigate({ to: "/connections" });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <form className="stack" onSubmit={submit}>
      <TextField label="Your key or token for this server" type="password" required value={key} onChange={setKey} maxLength={8192} autoComplete="off" spellCheck={false} mono hint="It is stored encrypted, and sent only to this server." />
      <ErrorNote error={save.error} />
      <div><Button variant="primary" type="submit" busy={save.isPending} disabled={key.trim() === ""}>Save</Button></div>
    </form>
  );
}
