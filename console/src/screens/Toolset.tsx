import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { Layers } from "lucide-react";
import { useMemo } from "react";
import { queries } from "../api/queries";
import type { Toolsets } from "../api/types";
import { Page } from "../components/Page";
import { EmptyState, ErrorState, Skeleton } from "../components/States";
import { useCanEdit } from "./toolset/Editable";
import { Editor } from "./toolset/Editor";
import { namePattern, emptySelection, selectionOf } from "./toolset/selection";
import "./Toolset.css";

/** One toolset. It is loaded with the whole list, because a change must send the list's version. */
export default function Toolset() {
  const { name } = useParams({ from: "/toolsets/$name" });
  const { data, error, refetch } = useQuery(queries.toolsets());
  if (data) return <Found key={name} name={name} list={data} />;
  return (
    <Page title={name} above={<Link to="/toolsets">Toolsets</Link>}>
      {error ? <ErrorState error={error} onRetry={() => void refetch()} /> : <Skeleton lines={8} />}
    </Page>
  );
}

function Found({ name, list }: { name: string; list: Toolsets }) {
  const { tab } = useSearch({ from: "/toolsets/$name" });
  const mayEdit = useCanEdit("toolsets");
  const set = list.toolsets.find((each) => each.name === name);
  const latest = useMemo(() => ({ selection: set ? selectionOf(set) : emptySelection, version: list.version }), [set, list.version]);
  if (set || (tab === "new" && mayEdit && namePattern.test(name))) return <Editor name={name} set={set} latest={latest} />;
  return (
    <Page title={name} above={<Link to="/toolsets">Toolsets</Link>}>
      <EmptyState
        icon={<Layers />}
        title={`Unknown toolset ${name}`}
        action={mayEdit && namePattern.test(name) && <Link to="/toolsets/$name" params={{ name }} search={{ tab: "new" }} className="Button Button-plain Button-m">Create toolset</Link>}
      >
        It may have been removed from the configuration.
      </EmptyState>
    </Page>
  );
}
