import { Link } from "@tanstack/react-router";
import { MapPinOff } from "lucide-react";
import { Page } from "../components/Page";
import { EmptyState } from "../components/States";
import { useCanView } from "../session";

export default function NotFound() {
  const back = useCanView() ? "Go to the overview" : "Go to your calls";
  return (
    <Page title="Not found">
      <EmptyState icon={<MapPinOff />} title="Page not found" action={<Link to="/">{back}</Link>}>
        Check the URL.
      </EmptyState>
    </Page>
  );
}
