import { Wallet } from "lucide-react";
import { EmptyState } from "../../components/States";

/** The empty state for a yard that has no store. */
export function NoLedger() {
  return (
    <EmptyState icon={<Wallet />} title="No store configured">
      Accounts and sessions require a store. Add <code>store: sqlite:toolyard.db</code> to <code>toolyard.yaml</code> and set prices for tools.
    </EmptyState>
  );
}
