import { useNavigate, useSearch } from "@tanstack/react-router";
import { X } from "lucide-react";
import { useMemo } from "react";
import { Button } from "../components/Button";
import { Page } from "../components/Page";
import { Tabs } from "../components/Tabs";
import { oneOf } from "../search";
import { useCanView } from "../session";
import { Accounts } from "./spend/Accounts";
import { CostsView } from "./spend/CostsView";
import { OwnAccount } from "./spend/OwnAccount";
import { grains, rangeOf } from "./spend/range";
import { RangePicker } from "./spend/RangePicker";
import { Sessions } from "./spend/Sessions";
import "./Spend.css";

/** Costs, accounts and sessions. */
export default function Spend() {
  const search = useSearch({ from: "/spend" });
  const navigate = useNavigate({ from: "/spend" });
  const own = !useCanView();
  const { since, until, state } = search;
  const account = own ? undefined : search.account; // callers that lack the viewer scope have only one account
  const range = useMemo(() => rangeOf(since, until), [since, until]);
  const narrow = (more: Partial<typeof search>) => void navigate({ search: (old) => ({ ...old, ...more }), replace: "q" in more });
  const tab = ["costs", "accounts", "sessions"].find((each) => each === search.tab) ?? "costs";
  const tabs = [
    { id: "costs", label: "Costs", content: <CostsView range={range} grain={oneOf(grains, search.by)} account={account} search={{ since, until }} own={own} onGrain={(by) => narrow({ by })} /> },
    { id: "accounts", label: own ? "Your account" : "Accounts", content: own ? <OwnAccount /> : <Accounts account={account} q={search.q} onFind={(q) => narrow({ q })} /> },
    { id: "sessions", label: "Sessions", content: <Sessions account={account} own={own} state={state} onState={(next) => narrow({ state: next })} /> },
  ];
  return (
    <Page
      title="Spend"
      description={own ? "The cost of your calls and your account balance. Amounts are exact; days are in UTC." : "Costs, accounts and session budgets. Amounts are exact; days are in UTC."}
      actions={tab === "costs" && <RangePicker range={range} onChange={(from, to) => narrow({ since: from, until: to, by: undefined })} />}
    >
      {account && <div className="row-wrap"><Button size="s" icon={<X />} onClick={() => narrow({ account: undefined })}>Account {account}</Button></div>}
      <Tabs label="Spend" tabs={tabs} value={tab} onChange={(next) => narrow({ tab: next === "costs" ? undefined : next })} />
    </Page>
  );
}
