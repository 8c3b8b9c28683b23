import { Link } from "@tanstack/react-router";
import { EyeOff } from "lucide-react";
import type { Me } from "../api/types";
import { Card } from "../components/Card";
import { Page } from "../components/Page";
import { EmptyState } from "../components/States";

/** Shown on a page that requires the viewer scope. It explains how to get the scope. */
export default function NotAllowed({ me }: { me: Me }) {
  return (
    <Page title="Not allowed">
      <Card>
        <EmptyState icon={<EyeOff />} title="This page requires the viewer scope" action={<Link to="/calls">Go to your calls</Link>}>
          <div className="stack-s">
            <p>You are signed in as <strong className="wrap-anywhere">{me.caller}</strong>. Your key can only view {me.account ? <>the account <strong className="wrap-anywhere">{me.account}</strong></> : "its own account"}.</p>
            <p>Ask an operator for a key with the <code>viewer</code> scope, then sign in with it.</p>
          </div>
        </EmptyState>
      </Card>
    </Page>
  );
}
