import { Activity, CircleAlert, Coins, DoorOpen, Gauge, History, House, KeyRound, Layers, LibraryBig, type LucideIcon, Server } from "lucide-react";
import type { Overview } from "../api/types";

type Badge = { count: number; tone: "warn" | "bad"; title: string };

export type NavItem = {
  to: "/" | "/catalog" | "/servers" | "/toolsets" | "/gates" | "/calls" | "/spend" | "/limits" | "/keys" | "/problems" | "/changes";
  name: string;
  icon: LucideIcon;
  /** What wants attention there. */
  badge?: (overview: Overview) => Badge | undefined;
};

export const navigation: { title: string; items: NavItem[] }[] = [
  { title: "", items: [{ to: "/", name: "Overview", icon: House }] },
  {
    title: "Tools",
    items: [
      { to: "/catalog", name: "Catalog", icon: LibraryBig },
      { to: "/servers", name: "Servers", icon: Server, badge: serverBadge },
      { to: "/toolsets", name: "Toolsets", icon: Layers },
      { to: "/gates", name: "Gates", icon: DoorOpen },
    ],
  },
  {
    title: "Use",
    items: [
      { to: "/calls", name: "Calls", icon: Activity },
      { to: "/spend", name: "Spend", icon: Coins },
      { to: "/limits", name: "Limits", icon: Gauge },
    ],
  },
  {
    title: "Yard",
    items: [
      { to: "/keys", name: "Keys", icon: KeyRound },
      { to: "/problems", name: "Problems", icon: CircleAlert, badge: ({ problems }) => (problems > 0 ? { count: problems, tone: "warn", title: "problems" } : undefined) },
      { to: "/changes", name: "Changes", icon: History },
    ],
  },
];

/** What is in the bar at the bottom of a phone; the rest is behind More. */
export const onPhone: NavItem["to"][] = ["/", "/catalog", "/servers", "/calls"];

function serverBadge({ servers, waiting }: Overview): Badge | undefined {
  if (servers.down > 0) return { count: servers.down, tone: "bad", title: "servers down" };
  return waiting > 0 ? { count: waiting, tone: "warn", title: "definitions wait for approval" } : undefined;
}
