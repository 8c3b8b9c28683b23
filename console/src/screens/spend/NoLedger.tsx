import { Wallet } from "lucide-react";
import { EmptyState } from "../../components/States";

/** This yard has no store, and so no accounts. */
export function NoLedger() {
  return (
    <EmptyState icon={<Wallet />} title="Nothing is for sale here">
      Accounts and sessions are kept in a store. Name one in <code>toolyard.yaml</code>, such as <code>store: sqlite:toolyard.db</code>, and give tools a price.
    </EmptyState>
  );
}
