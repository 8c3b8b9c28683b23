import { useState } from "react";
import { isObject, type Json } from "../../api/json";
import { Button } from "../../components/Button";
import { Card } from "../../components/Card";
import { Code } from "../../components/Code";
import { SchemaTree } from "../../components/SchemaTree";

type SchemasProps = { input: Json | undefined; output: Json | undefined };

/** A tool's input and output schemas. */
export function Schemas({ input, output }: SchemasProps) {
  return (
    <div className="grid-2">
      <Schema title="Input" schema={input} none="No input schema." empty="No arguments." />
      <Schema title="Output" schema={output} none="No output schema." empty="Any object." />
    </div>
  );
}

function Schema({ title, schema, none, empty }: { title: string; schema: Json | undefined; none: string; empty: string }) {
  const [raw, setRaw] = useState(false);
  if (!isObject(schema)) return <Card title={title}><p className="faint">{none}</p></Card>;
  return (
    <Card title={title} actions={<Button size="s" variant="quiet" aria-pressed={raw} onClick={() => setRaw(!raw)}>{raw ? "Tree" : "JSON"}</Button>}>
      {raw ? <Code text={JSON.stringify(schema, null, 2)} label={`${title} schema as JSON`} maxHeight={640} /> : <SchemaTree schema={schema} empty={empty} />}
    </Card>
  );
}
