import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { putPrice, removePrice } from "../../api/actions";
import { queries } from "../../api/queries";
import type { Price, ToolDetail } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { TextField } from "../../components/Field";
import { Segments } from "../../components/Segments";
import { ErrorNote, Skeleton } from "../../components/States";
import { toast } from "../../components/Toast";
import { visible } from "../../format/visible";

type Scope = "tool" | "source";

/** Sets a tool's price, or the default price for all of its source's tools. */
export function PriceDialog({ tool, onClose }: { tool: ToolDetail; onClose: () => void }) {
  const [scope, setScope] = useState<Scope>("tool");
  const source = tool.server || "-";
  const name = scope === "tool" ? tool.name : "*";
  const { data, error } = useQuery(queries.price(source, name));
  return (
    <Dialog open onClose={onClose} title="Price" description="Charged for each successful call at execute gates.">
      <div className="stack">
        <Segments<Scope>
          label="Tools"
          value={scope}
          onChange={setScope}
          items={[
            { value: "tool", label: "This tool" },
            { value: "source", label: tool.server ? `All tools from ${visible(tool.server)}` : "All local tools" },
          ]}
        />
        {scope === "source" && <p className="soft">The default price applies to tools that do not declare their own price.</p>}
        <ErrorNote error={error} />
        {data ? <PriceForm key={name} price={data} onClose={onClose} /> : !error && <Skeleton lines={2} />}
      </div>
    </Dialog>
  );
}

const amount = /^(none|[0-9]{1,9}(\.[0-9]{1,9})?)$/;

function PriceForm({ price, onClose }: { price: Price; onClose: () => void }) {
  const client = useQueryClient();
  const [text, setText] = useState(price.executeUsd ?? "");
  const value = text.trim();
  const done = async (message: string) => {
    await Promise.all(["prices", "tools", "edits"].map((key) => client.invalidateQueries({ queryKey: [key] })));
    toast.good(message);
    onClose();
  };
  const save = useMutation({
    mutationFn: () => putPrice(price.source, price.tool, { executeUsd: value, version: price.version }),
    onSuccess: () => done("The price was changed."),
  });
  const reset = useMutation({
    mutationFn: () => removePrice(price.source, price.tool, price.version),
    onSuccess: () => done("The price was reset."),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (amount.test(value)) save.mutate();
  };
  return (
    <form className="stack" onSubmit={submit}>
      <TextField
        label="US dollars per call"
        value={text}
        onChange={setText}
        inputMode="decimal"
        autoComplete="off"
        maxLength={20}
        placeholder="0.001"
        hint={`${origins[price.from]} Enter none for a tool that is not for sale.`}
        error={value !== "" && !amount.test(value) ? "Enter an amount such as 0.25, with at most 9 decimal places, or none." : undefined}
      />
      <ErrorNote error={save.error ?? reset.error} />
      <div className="Dialog-buttons">
        {price.from === "api" && <Button busy={reset.isPending} onClick={() => reset.mutate()}>Reset</Button>}
        <Button onClick={onClose}>Cancel</Button>
        <Button type="submit" variant="primary" busy={save.isPending} disabled={!amount.test(value)}>Save</Button>
      </div>
    </form>
  );
}

const origins: Record<Price["from"], string> = {
  api: "Changed by an operator.",
  file: "Set in the configuration file.",
  tool: "Not set by an operator.",
};
