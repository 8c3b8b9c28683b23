import { Button } from "../../components/Button";
import { JsonDiff } from "../../components/Diff";
import { bodyOf, type Selection } from "./selection";

type ConflictProps = { was: Selection; theirs: Selection; onMine: () => void; onTheirs: () => void };

/** Shows concurrent changes to the toolset, and asks which version to keep. */
export function Conflict({ was, theirs, onMine, onTheirs }: ConflictProps) {
  return (
    <section className="Toolset-conflict" role="alert" aria-label="Changed by someone else">
      <div>
        <h2>This toolset was changed by someone else</h2>
        <p className="soft">These are their changes. Yours are kept; choose which version to save.</p>
      </div>
      <JsonDiff label="Changes by someone else" beforeTitle="When you opened it" afterTitle="Now" before={bodyOf(was)} after={bodyOf(theirs)} />
      <div className="row-wrap">
        <Button onClick={onTheirs}>Discard my changes and load theirs</Button>
        <Button onClick={onMine}>Keep my changes</Button>
      </div>
    </section>
  );
}
