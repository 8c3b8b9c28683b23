import { type FormEvent, useState } from "react";
import { checkClaims } from "../../api/actions";
import type { ClaimsCheck } from "../../api/types";
import { Badge, Status } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { TextArea } from "../../components/Field";
import { ErrorNote } from "../../components/States";
import { visible } from "../../format/visible";
import { claimsFrom } from "./claims";

/** Explains what an access token with the given claims would be allowed to do. */
export function TokenCheck() {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string>();
  const [error, setError] = useState<unknown>();
  const [result, setResult] = useState<ClaimsCheck>();
  const [busy, setBusy] = useState(false);
  const check = async (event: FormEvent) => {
    event.preventDefault();
    const { claims, problem } = claimsFrom(text);
    setProblem(problem);
    setResult(undefined);
    setError(undefined);
    if (!claims) return;
    setBusy(true);
    await checkClaims(claims).then(setResult, setError).finally(() => setBusy(false));
  };
  return (
    <Card title="Check claims">
      <form className="TokenCheck" onSubmit={(event) => void check(event)}>
        <TextArea label="Claims" mono rows={5} value={text} onChange={setText} maxLength={16_000} spellCheck={false} autoComplete="off" error={problem} hint="The decoded payload of an access token, as JSON. Never paste the token itself." placeholder={'{"iss": "https://login.example.com", "sub": "9f31c2", "aud": "https://tools.example.com/mcp/chat", "groups": ["staff"], "exp": 1767225600}'} />
        <div><Button type="submit" variant="primary" disabled={busy || text.trim() === ""}>Check claims</Button></div>
      </form>
      <ErrorNote error={error} />
      <div aria-live="polite">{result && <Result of={result} />}</div>
    </Card>
  );
}

function Result({ of: { refused, issuer, caller, account, rules, role, write, targets } }: { of: ClaimsCheck }) {
  if (refused) return <p className="TokenCheck-refused"><Status tone="bad">Refused</Status> <span className="wrap-anywhere">{visible(refused)}</span></p>;
  return (
    <dl className="TokenCheck-result">
      <dt>Caller</dt><dd className="wrap-anywhere">{visible(caller ?? "")}</dd>
      <dt>Account</dt><dd className="wrap-anywhere">{visible(account ?? "")}</dd>
      <dt>Access rules</dt><dd>{rules.join(", ")} of {issuer}</dd>
      <dt>Rights</dt><dd className="People-gates">{role && <Badge tone="accent">{role}</Badge>}{write && <Badge tone="warn">write</Badge>}{!role && !write && <span className="faint">read</span>}</dd>
      {targets.map(({ gate, resource, refused: why }) => (
        <div className="TokenCheck-target" key={resource}>
          <dt title={resource}>{gate ? `Gate ${gate}` : "HTTP API"}</dt>
          <dd>{why ? <><Status tone="bad">Refused</Status> <span className="wrap-anywhere">{visible(why)}</span></> : <Status tone="good">Accepted</Status>}</dd>
        </div>
      ))}
    </dl>
  );
}
