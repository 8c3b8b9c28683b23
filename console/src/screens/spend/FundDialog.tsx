import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { fundAccount } from "../../api/actions";
import type { Balance } from "../../api/types";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { TextField } from "../../components/Field";
import { ErrorNote } from "../../components/States";
import { toast } from "../../components/Toast";
import { addMoney, money } from "../../format";
import { parseAmount } from "./balance";

type Draft = { account: string; amount: string; reference: string };

/**
 * Funds an account, or withdraws from it, in two steps: a form and a review. The reference stays
 * the same while the dialog is open, so that a retry cannot fund twice.
 */
export function FundDialog({ balance, onClose }: { balance: Balance | undefined; onClose: () => void }) {
  const client = useQueryClient();
  const [draft, setDraft] = useState<Draft>(() => ({ account: balance?.id ?? "", amount: "", reference: newReference() }));
  const [reviewing, setReviewing] = useState(false);
  const amount = parseAmount(draft.amount);
  const fund = useMutation({
    mutationFn: () => fundAccount(draft.account.trim(), amount ?? "", draft.reference.trim()),
    onSuccess: (funded) => {
      void client.invalidateQueries({ queryKey: ["accounts"] });
      toast.good(`${funded.id} now has ${money(funded.remainingUsd)}.`);
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!amount || !draft.account.trim() || !draft.reference.trim()) return;
    if (reviewing) fund.mutate();
    else setReviewing(true);
  };
  return (
    <Dialog open onClose={onClose} title={balance ? `Fund ${balance.id}` : "Fund account"}>
      <form className="stack" onSubmit={submit}>
        {reviewing && amount ? <Review draft={draft} amount={amount} balance={balance} /> : <Fields draft={draft} onChange={setDraft} fixed={balance !== undefined} />}
        <ErrorNote error={fund.error} />
        <div className="Dialog-buttons">
          <Button onClick={reviewing ? () => setReviewing(false) : onClose}>{reviewing ? "Back" : "Cancel"}</Button>
          <Button type="submit" variant="primary" busy={fund.isPending} disabled={!amount || !draft.account.trim() || !draft.reference.trim()}>{reviewing ? (amount?.startsWith("-") ? "Withdraw" : "Fund") : "Continue"}</Button>
        </div>
      </form>
    </Dialog>
  );
}

function newReference(): string {
  return `console-${new Date().toISOString().slice(0, 10)}-${crypto.getRandomValues(new Uint32Array(1))[0]?.toString(36)}`;
}

function Fields({ draft, onChange, fixed }: { draft: Draft; onChange: (draft: Draft) => void; fixed: boolean }) {
  const amountError = draft.amount.trim() !== "" && !parseAmount(draft.amount) ? "Enter an amount such as 5 or 0.25, with at most 9 decimal places." : undefined;
  return (
    <>
      {!fixed && <TextField label="Account" required value={draft.account} onChange={(account) => onChange({ ...draft, account })} maxLength={128} autoComplete="off" spellCheck={false} hint="Letters, digits and . _ @ : / + -" />}
      <TextField label="Amount in US dollars" required value={draft.amount} onChange={(amount) => onChange({ ...draft, amount })} inputMode="decimal" autoComplete="off" placeholder="5.00" error={amountError} hint="Negative to withdraw." maxLength={40} />
      <TextField label="Reference" required mono value={draft.reference} onChange={(reference) => onChange({ ...draft, reference })} maxLength={128} autoComplete="off" spellCheck={false} hint="Unique, such as an invoice number. Reusing a reference has no effect." />
    </>
  );
}

function Review({ draft, amount, balance }: { draft: Draft; amount: string; balance: Balance | undefined }) {
  const out = amount.startsWith("-");
  return (
    <div className="stack-s" role="status">
      <p>
        {out ? "Withdraw" : "Add"} <strong>{money(out ? amount.slice(1) : amount)}</strong> {out ? "from" : "to"} the account <strong className="wrap-anywhere">{draft.account.trim()}</strong>?
      </p>
      {balance && <p className="soft">Balance: {money(balance.remainingUsd)} now, {money(addMoney(balance.remainingUsd, amount))} after.</p>}
      <p className="soft">Reference <code className="wrap-anywhere">{draft.reference.trim()}</code>. Entries cannot be deleted, only reversed by another entry.</p>
    </div>
  );
}
