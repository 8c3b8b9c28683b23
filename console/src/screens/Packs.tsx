import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Package, Play } from "lucide-react";
import { useState } from "react";
import { queries } from "../api/queries";
import type { Pack, PackAction } from "../api/types";
import { Badge } from "../components/Badge";
import { Button } from "../components/Button";
import { Card } from "../components/Card";
import { Page } from "../components/Page";
import { ProblemCard } from "../components/ProblemCard";
import { EmptyState, ErrorState, Skeleton } from "../components/States";
import { plural } from "../format";
import { visible } from "../format/visible";
import { useCanChange } from "../session";
import { ActionDialog } from "./pack/ActionDialog";
import "./Packs.css";

/** The yard's packs, their problems and their actions. */
export default function Packs() {
  const { data, error, refetch } = useQuery(queries.packs());
  return (
    <Page title="Packs" description="Sets of tools with their own settings. Operators can run pack actions; models cannot.">
      {data ? <PackList packs={data.packs} /> : error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={5} />}
    </Page>
  );
}

function PackList({ packs }: { packs: Pack[] }) {
  if (packs.length === 0) {
    return (
      <EmptyState icon={<Package />} title="No packs">
        Enable one under <code>packs</code> in the configuration.
      </EmptyState>
    );
  }
  return packs.map((pack) => <OnePack key={pack.name} pack={pack} />);
}

function OnePack({ pack }: { pack: Pack }) {
  return (
    <Card flush title={pack.name} actions={<State pack={pack} />}>
      <p className="Packs-gates soft">
        {plural(pack.tools, "tool")}, {pack.gates.length === 0 ? "not offered at any gate" : <>offered at {pack.gates.map((gate, i) => <span key={gate}>{i > 0 && ", "}<Link to="/gates" search={{ gate }}>{gate}</Link></span>)}</>}
      </p>
      {pack.problems.map((problem, i) => <ProblemCard key={i} problem={problem} />)}
      {pack.actions.length > 0 && (
        <ul className="Packs-actions" aria-label={`Actions in ${pack.name}`}>
          {pack.actions.map((action) => <Action key={action.name} pack={pack.name} action={action} />)}
        </ul>
      )}
    </Card>
  );
}

function State({ pack }: { pack: Pack }) {
  if (pack.problems.some((problem) => !problem.warning)) return <Badge tone="bad">Problems</Badge>;
  return pack.state === "up" ? <Badge tone="good">Up</Badge> : <Badge tone="warn">Starting</Badge>;
}

function Action({ pack, action }: { pack: string; action: PackAction }) {
  const mayChange = useCanChange();
  const [open, setOpen] = useState(false);
  return (
    <li className="Packs-action">
      <div className="grow">
        <h3 className="wrap-anywhere">{visible(action.title ?? action.name)} {action.readOnly && <Badge>read-only</Badge>}</h3>
        <p className="soft wrap-anywhere">{visible(action.description)}</p>
      </div>
      {mayChange && <Button icon={<Play />} aria-label={`Run ${action.name}`} onClick={() => setOpen(true)}>Run</Button>}
      {open && <ActionDialog pack={pack} action={action} onClose={() => setOpen(false)} />}
    </li>
  );
}
