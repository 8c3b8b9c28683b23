import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { queries } from "../../api/queries";
import type { Facet, Facets as FacetCounts } from "../../api/types";
import { Switch } from "../../components/Toggle";
import { count } from "../../format";
import { visible } from "../../format/visible";
import { type CatalogSearch, filterNames, type FilterName, filterOf, filterLabels, valueLabel } from "./filter";

type Option = { value: string; count?: number };
type FacetsProps = { search: CatalogSearch; counts: FacetCounts | undefined; narrow: (more: CatalogSearch) => void };

/** The catalog's filters, with the number of matching tools per value. */
export function Facets({ search, counts, narrow }: FacetsProps) {
  const gates = useQuery(queries.gates());
  const options = (name: FilterName): Option[] =>
    name === "gate" ? (gates.data?.gates.map((gate) => ({ value: gate.name })) ?? []) : (counts?.[name] ?? []);
  return (
    <div className="Facets">
      <WithProblems search={search} narrow={narrow} />
      {filterNames.map((name) => (
        <Group key={name} name={name} options={withChosen(options(name), search[name])} chosen={search[name]} onChoose={(value) => narrow({ [name]: value })} />
      ))}
    </div>
  );
}

/** Keeps the selected value in its group, even if no tool matches it. */
function withChosen(options: Option[], chosen: string | undefined): Option[] {
  if (!chosen || options.some((option) => option.value === chosen)) return options;
  return [{ value: chosen, count: 0 }, ...options];
}

function WithProblems({ search, narrow }: Pick<FacetsProps, "search" | "narrow">) {
  const { data } = useQuery(queries.tools({ ...filterOf(search, search.q ?? ""), problem: true, limit: 1 }));
  const on = search.problem === "true";
  if (!on && data?.total === 0) return null;
  return (
    <div className="Facets-troubled">
      <Switch label="With problems" checked={on} onChange={(next) => narrow({ problem: next ? "true" : undefined })} />
      <span className="Facets-count">{count(data?.total)}</span>
    </div>
  );
}

const initialValues = 7; // number of a group's values shown at first
const searchFrom = 20; // number of values from which a group has its own search

type GroupProps = { name: FilterName; options: Option[]; chosen: string | undefined; onChoose: (value: string | undefined) => void };

function Group({ name, options, chosen, onChoose }: GroupProps) {
  const [all, setAll] = useState(false);
  const [text, setText] = useState("");
  if (options.length === 0) return null;
  const matching = text === "" ? options : options.filter((option) => valueLabel(name, option.value).toLowerCase().includes(text.toLowerCase()));
  const shown = all ? matching : chosenFirst(options, chosen).slice(0, initialValues);
  return (
    <div className="Facets-group" role="group" aria-label={filterLabels[name]}>
      <p className="Facets-title" aria-hidden="true">{filterLabels[name]}</p>
      {all && options.length > searchFrom && (
        <input className="Input Facets-filter" type="search" aria-label={`Find in ${filterLabels[name]}`} placeholder="Find" value={text} onChange={(event) => setText(event.target.value)} />
      )}
      <ul className={all ? "Facets-all" : undefined}>
        {shown.map((option) => (
          <li key={option.value}>
            <Choice name={name} option={option} on={option.value === chosen} onChoose={onChoose} />
          </li>
        ))}
      </ul>
      {options.length > initialValues && (
        <button type="button" className="Facets-more" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? "Fewer" : `${options.length - initialValues} more`}
        </button>
      )}
    </div>
  );
}

function chosenFirst(options: Option[], chosen: string | undefined): Option[] {
  const at = options.findIndex((option) => option.value === chosen);
  const found = options[at];
  return at < initialValues || !found ? options : [found, ...options.filter((_, i) => i !== at)];
}

type ChoiceProps = { name: FilterName; option: Option | Facet; on: boolean; onChoose: (value: string | undefined) => void };

function Choice({ name, option, on, onChoose }: ChoiceProps) {
  const words = visible(valueLabel(name, option.value));
  return (
    <button type="button" className="Facets-choice" aria-pressed={on} onClick={() => onChoose(on ? undefined : option.value)}>
      <span className="grow cut" title={words}>{words}</span>
      {option.count !== undefined && <span className="Facets-count">{count(option.count)}</span>}
    </button>
  );
}
