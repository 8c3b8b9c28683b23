import { Link } from "@tanstack/react-router";
import { EyeOff } from "lucide-react";
import type { Me } from "../api/types";
import { Card } from "../components/Card";
import { Page } from "../components/Page";
import { EmptyState } from "../components/States";

/** An address that is only for those who may see the whole yard: what it would take, and who gives it. */
export default function NotYours({ me }: { me: Me }) {
  return (
    <Page title="Not with this key">
      <Card>
        <EmptyState icon={<EyeOff />} title="This page shows the whole yard" action={<Link to="/calls">To your calls</Link>}>
          <div className="stack-s">
            <p>You are signed in as <strong className="wrap-anywhere">{me.caller}</strong>, whose key shows what concerns {me.account ? <>the account <strong className="wrap-anywhere">{me.account}</strong></> : "its own account"} only.</p>
            <p>A key with the scope <code>viewer</code> opens this page. Operators of the yard give one, on their page Keys or with the command <code>toolyard keys create</code>. Then sign out, and in with it.</p>
          </div>
        </EmptyState>
      </Card>
    </Page>
  );
}
