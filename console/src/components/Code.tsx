import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { visible } from "../format/visible";
import { IconButton } from "./Button";
import { toast } from "./Toast";
import "./Code.css";

/** Copies a text and confirms it. */
export function CopyButton({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      setDone(true);
    } catch {
      toast.bad("The browser blocked access to the clipboard. Select the text and copy it manually.");
    }
  };
  return <IconButton size="s" label={done ? "Copied" : label} icon={done ? <Check /> : <Copy />} onClick={copy} />;
}

type CodeProps = { text: string; label?: string; copy?: boolean; wrap?: boolean; maxHeight?: number };

/** A block of preformatted text. Invisible characters are shown as escapes. */
export function Code({ text, label, copy = true, wrap = false, maxHeight = 420 }: CodeProps) {
  return (
    <div className="Code">
      {copy && <div className="Code-copy"><CopyButton text={text} /></div>}
      <pre className={wrap ? "Code-text Code-wrap" : "Code-text"} style={{ maxHeight }} tabIndex={0} aria-label={label}>
        <code>{visible(text)}</code>
      </pre>
    </div>
  );
}
