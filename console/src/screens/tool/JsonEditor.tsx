import { WandSparkles } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import { isObject, type Json, type JsonObject } from "../../api/json";
import { Button } from "../../components/Button";
import type { Fault } from "./check";

type JsonEditorProps = { label: string; args: JsonObject; faults: Fault[]; onChange: (args: JsonObject | undefined) => void };

/** Edits a JSON object. It reports undefined while the text is not a valid object. */
export function JsonEditor({ label, args, faults, onChange }: JsonEditorProps) {
  const id = useId();
  const [text, setText] = useState(() => JSON.stringify(args, null, 2));
  const passed = useRef(args);
  useEffect(() => {
    if (passed.current === args) return;
    passed.current = args;
    setText(JSON.stringify(args, null, 2));
  }, [args]);
  const { value, wrong: error } = parse(text);
  const change = (next: string) => {
    setText(next);
    const read = parse(next).value;
    if (read) passed.current = read;
    onChange(read);
  };
  const about = [error && `${id}-wrong`, faults.length > 0 && `${id}-faults`].filter(Boolean).join(" ");
  return (
    <div className="JsonEditor">
      <div className="spread">
        <label htmlFor={id} className="Field-label">{label}</label>
        <Button size="s" variant="quiet" icon={<WandSparkles />} disabled={!value} onClick={() => value && setText(JSON.stringify(value, null, 2))}>Format</Button>
      </div>
      <textarea
        id={id}
        className="Input Input-area mono"
        rows={Math.min(24, Math.max(8, text.split("\n").length + 1))}
        spellCheck={false}
        autoCapitalize="off"
        aria-invalid={error || faults.length > 0 ? true : undefined}
        aria-describedby={about || undefined}
        value={text}
        onChange={(event) => change(event.target.value)}
      />
      {error && <p id={`${id}-wrong`} className="Field-error" role="status">{error}</p>}
      {!error && faults.length > 0 && (
        <ul id={`${id}-faults`} className="Field-error">
          {faults.map(({ path, message }, i) => (
            <li key={i}>{path.length > 0 && <code>{path.join(".")}</code>} {message}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

function parse(text: string): { value?: JsonObject; wrong?: string } {
  if (text.trim() === "") return { value: {} };
  try {
    const value = JSON.parse(text) as Json;
    return isObject(value) ? { value } : { wrong: "Must be a JSON object: { … }." };
  } catch (cause) {
    return { wrong: cause instanceof Error ? cause.message : "Invalid JSON." };
  }
}
