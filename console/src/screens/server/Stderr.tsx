import { Terminal } from "lucide-react";
import { useEffect, useRef } from "react";
import type { ServerDetail } from "../../api/types";
import { CopyButton } from "../../components/Code";
import { EmptyState } from "../../components/States";
import { visible } from "../../format/visible";

/** The end of what a server wrote to its standard error; it stays at the end as more comes. */
export function Stderr({ server }: { server: ServerDetail }) {
  const block = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    if (block.current && atEnd.current) block.current.scrollTop = block.current.scrollHeight;
  }, [server.stderr]);
  const scrolled = (pre: HTMLPreElement) => (atEnd.current = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 24);
  if (!server.stderr) {
    return (
      <EmptyState icon={<Terminal />} title="Nothing on standard error">
        {server.transport === "stdio" ? "It has written nothing there." : "Only programs that the yard starts have one; this server is reached over the network."}
      </EmptyState>
    );
  }
  return (
    <div className="Code">
      <div className="Code-copy"><CopyButton text={server.stderr} /></div>
      <pre ref={block} className="Code-text Code-wrap Server-stderr" tabIndex={0} role="region" aria-label={`Standard error of ${server.id}`} onScroll={(event) => scrolled(event.currentTarget)}>
        <code>{visible(server.stderr)}</code>
      </pre>
    </div>
  );
}
