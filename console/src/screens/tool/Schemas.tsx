import { useState } from "react";
import { isObject, type Json } from "../../api/json";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { Code } from "../../components/Code";
import { SchemaTree } from "../../components/SchemaTree";

type SchemasProps = { input: Json | undefined; output: Json | undefined };

/** What the tool takes and what it answers with. */
export function Schemas({ input, output }: SchemasProps) {
  return (
    <div className="grid-2">
      <Schema title="Input" schema={input} none="It declares no input schema." empty="It takes no arguments." />
      <Schema title="Output" schema={output} none="It does not say what its structured content is like." empty="An object with any members." />
    </div>
  );
}

function Schema({ title, schema, none, empty }: { title: string; schema: Json | undefined; none: string; empty: string }) {
  const [raw, setRaw] = useState(false);
  if (!isObject(schema)) return <Card title={title}><p className="faint">{none}</p></Card>;
  return (
    <Card title={title} actions={<Button size="s" variant="quiet" aria-pressed={raw} onClick={() => setRaw(!raw)}>{raw ? "As a tree" : "As JSON"}</Button>}>
      {raw ? <Code text={JSON.stringify(schema, null, 2)} label={`${title} schema as JSON`} maxHeight={640} /> : <SchemaTree schema={schema} empty={empty} />}
    </Card>
  );
}
