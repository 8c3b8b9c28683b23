import { Wallet } from "lucide-react";
import { EmptyState } from "../../components/States";

/** This yard has no store, and so no accounts. */
export function NoLedger() {
  return (
    <EmptyState icon={<Wallet />} title="This yard has no store">
      Accounts and sessions are kept in a store. Add <code>store: sqlite:toolyard.db</code> to <code>toolyard.yaml</code> and give tools a price.
    </EmptyState>
  );
}
