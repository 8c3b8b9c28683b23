import { Button } from "../../components/Button";
import { JsonDiff } from "../../components/Diff";
import { bodyOf, type Selection } from "./selection";

type ConflictProps = { was: Selection; theirs: Selection; onMine: () => void; onTheirs: () => void };

/** Somebody else changed the toolset while it was edited here: shows what, and lets a person decide. */
export function Conflict({ was, theirs, onMine, onTheirs }: ConflictProps) {
  return (
    <section className="Toolset-conflict" role="alert" aria-label="Changed by somebody else">
      <div>
        <h2>Somebody else changed this toolset meanwhile</h2>
        <p className="soft">This is what they changed. Nothing of yours is lost; decide which counts before you save.</p>
      </div>
      <JsonDiff label="What somebody else changed" beforeTitle="When you began" afterTitle="Now" before={bodyOf(was)} after={bodyOf(theirs)} />
      <div className="row-wrap">
        <Button onClick={onTheirs}>Load theirs, drop mine</Button>
        <Button onClick={onMine}>Keep mine, to be saved over theirs</Button>
      </div>
    </section>
  );
}
