import { Link } from "@tanstack/react-router";
import type { Gate } from "../../api/types";
import { Card } from "../../components/Card";
import { Code, CopyButton } from "../../components/Code";
import { Tabs } from "../../components/Tabs";
import { type Snippet, snippets } from "./snippets";

/** Instructions for connecting clients to a gate. */
export function Connect({ gate }: { gate: Gate }) {
  const url = location.origin + gate.path;
  const tabs = snippets(gate, location.origin).map((each) => ({ id: each.id, label: each.label, content: <SnippetText snippet={each} /> }));
  return (
    <Card title="Connect a client">
      <div className="stack">
        <p className="Gates-url"><span className="soft">URL</span> <code className="wrap-anywhere">{url}</code> <CopyButton text={url} label="Copy URL" /></p>
        {gate.callers === "tokens" ? (
          <p className="soft">Callers sign in: the client opens a browser when it connects.</p>
        ) : gate.callers === "authenticated" ? (
          <p className="soft">Callers sign in, or send an <Link to="/keys">API key</Link> as <code>Authorization: Bearer</code>.</p>
        ) : gate.callers === "keys" ? (
          <p className="soft">Callers need an API key. <Link to="/keys">Create one</Link> and set it as <code>TOOLYARD_KEY</code>; it is sent as <code>Authorization: Bearer</code>.</p>
        ) : (
          <p className="soft">No key is required: anyone who can reach the URL can call tools.</p>
        )}
        <Tabs label="Clients" tabs={tabs} />
      </div>
    </Card>
  );
}

function SnippetText({ snippet }: { snippet: Snippet }) {
  return (
    <div className="stack-s">
      <p className="small soft">{snippet.file ? <>In <code>{snippet.file}</code>:</> : snippet.about}</p>
      <Code text={snippet.text} label={`For ${snippet.label}`} />
    </div>
  );
}
