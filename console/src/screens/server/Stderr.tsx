import { Terminal } from "lucide-react";
import { useEffect, useRef } from "react";
import type { ServerDetail } from "../../api/types";
import { CopyButton } from "../../components/Code";
import { EmptyState } from "../../components/States";
import { visible } from "../../format/visible";

/** The last lines of a server's standard error. */
export function Stderr({ server }: { server: ServerDetail }) {
  const block = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    if (block.current && atEnd.current) block.current.scrollTop = block.current.scrollHeight;
  }, [server.stderr]);
  const scrolled = (pre: HTMLPreElement) => (atEnd.current = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 24);
  if (!server.stderr) {
    return (
      <EmptyState icon={<Terminal />} title="No logs">
        {server.transport === "stdio" ? "The program has written nothing to standard error." : "Logs are available only for servers that the yard starts as programs. This server is remote."}
      </EmptyState>
    );
  }
  return (
    <div className="Code">
      <div className="Code-copy"><CopyButton text={server.stderr} /></div>
      <pre ref={block} className="Code-text Code-wrap Server-stderr" tabIndex={0} role="region" aria-label={`Logs from ${server.id}`} onScroll={(event) => scrolled(event.currentTarget)}>
        <code>{visible(server.stderr)}</code>
      </pre>
    </div>
  );
}
