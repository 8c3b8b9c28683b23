import { Link } from "@tanstack/react-router";
import { MapPinOff } from "lucide-react";
import { Page } from "../components/Page";
import { EmptyState } from "../components/States";

export default function NotFound() {
  return (
    <Page title="Not found">
      <EmptyState icon={<MapPinOff />} title="There is no such page" action={<Link to="/">To the overview</Link>}>
        The address may be mistyped, or what it named is gone.
      </EmptyState>
    </Page>
  );
}
