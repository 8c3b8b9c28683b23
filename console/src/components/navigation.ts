import { Activity, CircleAlert, Coins, DoorOpen, Gauge, History, House, KeyRound, Layers, LibraryBig, Link2, type LucideIcon, Server } from "lucide-react";
import type { Overview } from "../api/types";
import { otherProblems } from "../health";

type Badge = { count: number; tone: "warn" | "bad"; title: string };

export type NavItem = {
  to: "/" | "/catalog" | "/servers" | "/toolsets" | "/gates" | "/calls" | "/spend" | "/limits" | "/links" | "/keys" | "/problems" | "/changes";
  name: string;
  icon: LucideIcon;
  /** What wants attention there. */
  badge?: (overview: Overview) => Badge | undefined;
  /** It is also for those who may see only what concerns their own account. */
  own?: true;
};

export type NavGroup = { title: string; items: NavItem[] };

const navigation: NavGroup[] = [
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
    title: "Activity",
    items: [
      { to: "/calls", name: "Calls", icon: Activity, own: true },
      { to: "/spend", name: "Spend", icon: Coins, own: true },
      { to: "/limits", name: "Limits", icon: Gauge },
      { to: "/links", name: "Links", icon: Link2, own: true },
    ],
  },
  {
    title: "Admin",
    items: [
      { to: "/keys", name: "Keys", icon: KeyRound },
      { to: "/problems", name: "Problems", icon: CircleAlert, badge: problemBadge },
      { to: "/changes", name: "Changes", icon: History },
    ],
  },
];

const ownNavigation: NavGroup[] = [{ title: "", items: navigation.flatMap(({ items }) => items.filter((item) => item.own)) }];

/** Where one can go: who may not see the yard only to what concerns their own account. */
export const navigationOf = (all: boolean): NavGroup[] => (all ? navigation : ownNavigation);

/** Whether a route is for everybody who is signed in. */
export function isOwn(route: string): boolean {
  return ownNavigation.some(({ items }) => items.some(({ to }) => route === to || route.startsWith(`${to}/`)));
}

const onPhone: NavItem["to"][] = ["/", "/catalog", "/servers", "/calls"];

/** What is in the bar at the bottom of a phone, and what is behind More. */
export function phoneNavigation(all: boolean): { bar: NavItem[]; more: NavItem[] } {
  const items = navigationOf(all).flatMap((group) => group.items);
  if (!all) return { bar: items, more: [] };
  return { bar: items.filter(({ to }) => onPhone.includes(to)), more: items.filter(({ to }) => !onPhone.includes(to)) };
}

function problemBadge(overview: Overview): Badge | undefined {
  const count = otherProblems(overview);
  return count > 0 ? { count, tone: "warn", title: "problems" } : undefined;
}

function serverBadge({ servers, waiting }: Overview): Badge | undefined {
  if (servers.down > 0) return { count: servers.down, tone: "bad", title: "servers down" };
  return waiting > 0 ? { count: waiting, tone: "warn", title: "definitions pending approval" } : undefined;
}
