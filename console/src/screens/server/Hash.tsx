import { CopyButton } from "../../components/Code";

/** The hash of a definition: enough of it to tell it apart, and all of it to copy. */
export function Hash({ hash }: { hash: string }) {
  return (
    <span className="row">
      <code className="soft" title={hash}>{hash.slice(0, 12)}</code>
      <CopyButton text={hash} label="Copy hash" />
    </span>
  );
}
