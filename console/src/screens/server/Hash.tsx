import { CopyButton } from "../../components/Code";

/** A shortened hash with a button that copies the full hash. */
export function Hash({ hash }: { hash: string }) {
  return (
    <span className="row">
      <code className="soft" title={hash}>{hash.slice(0, 12)}</code>
      <CopyButton text={hash} label="Copy hash" />
    </span>
  );
}
