import { Link } from "@tanstack/react-router";
import { MapPinOff } from "lucide-react";
import { Page } from "../components/Page";
import { EmptyState } from "../components/States";
import { useMaySee } from "../session";

export default function NotFound() {
  const back = useMaySee() ? "To the overview" : "To your calls";
  return (
    <Page title="Not found">
      <EmptyState icon={<MapPinOff />} title="There is no such page" action={<Link to="/">{back}</Link>}>
        The address may be mistyped, or what it named is gone.
      </EmptyState>
    </Page>
  );
}
