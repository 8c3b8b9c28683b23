import { Activity, CircleAlert, Coins, DoorOpen, Gauge, History, House, KeyRound, Layers, LibraryBig, Link2, type LucideIcon, MessageCircleQuestionMark, Package, Plug, Server, ShieldCheck, Users } from "lucide-react";
import type { Overview } from "../api/types";
import { otherProblems } from "../health";

type Badge = { count: number; tone: "warn" | "bad"; title: string };

export type NavItem = {
  to: "/" | "/catalog" | "/servers" | "/packs" | "/toolsets" | "/gates" | "/approvals" | "/calls" | "/queries" | "/spend" | "/limits" | "/links" | "/connections" | "/people" | "/keys" | "/problems" | "/changes";
  name: string;
  icon: LucideIcon;
  /** The number of items that need attention. */
  badge?: (overview: Overview) => Badge | undefined;
  /** Also available to callers that can view only their own account. */
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
      { to: "/packs", name: "Packs", icon: Package },
      { to: "/toolsets", name: "Toolsets", icon: Layers },
      { to: "/gates", name: "Gates", icon: DoorOpen },
    ],
  },
  {
    title: "Activity",
    items: [
      { to: "/calls", name: "Calls", icon: Activity, own: true },
      { to: "/queries", name: "Queries", icon: MessageCircleQuestionMark, own: true },
      { to: "/approvals", name: "Approvals", icon: ShieldCheck, badge: approvalBadge },
      { to: "/spend", name: "Spend", icon: Coins, own: true },
      { to: "/limits", name: "Limits", icon: Gauge },
      { to: "/links", name: "Links", icon: Link2, own: true },
      { to: "/connections", name: "Connections", icon: Plug, own: true },
    ],
  },
  {
    title: "Admin",
    items: [
      { to: "/people", name: "People", icon: Users },
      { to: "/keys", name: "Keys", icon: KeyRound },
      { to: "/problems", name: "Problems", icon: CircleAlert, badge: problemBadge },
      { to: "/changes", name: "Changes", icon: History },
    ],
  },
];

const ownNavigation: NavGroup[] = [{ title: "", items: navigation.flatMap(({ items }) => items.filter((item) => item.own)) }];

/** The navigation for callers that can view the whole yard (all), or only their own account. */
export const navigationOf = (all: boolean): NavGroup[] => (all ? navigation : ownNavigation);

/** Reports whether every signed-in caller may open a route. */
export function isOwn(route: string): boolean {
  return ownNavigation.some(({ items }) => items.some(({ to }) => route === to || route.startsWith(`${to}/`)));
}

const onPhone: NavItem["to"][] = ["/", "/catalog", "/servers", "/calls"];
const ownOnPhone: NavItem["to"][] = ["/calls", "/spend", "/connections"];

/** The items in the bottom bar on phones, and those behind More. */
export function phoneNavigation(all: boolean): { bar: NavItem[]; more: NavItem[] } {
  const items = navigationOf(all).flatMap((group) => group.items);
  const first = all ? onPhone : ownOnPhone;
  return { bar: items.filter(({ to }) => first.includes(to)), more: items.filter(({ to }) => !first.includes(to)) };
}

function problemBadge(overview: Overview): Badge | undefined {
  const count = otherProblems(overview);
  return count > 0 ? { count, tone: "warn", title: "problems" } : undefined;
}

function approvalBadge({ approvals }: Overview): Badge | undefined {
  return approvals > 0 ? { count: approvals, tone: "warn", title: "calls waiting for approval" } : undefined;
}

function serverBadge({ servers, waiting }: Overview): Badge | undefined {
  if (servers.down > 0) return { count: servers.down, tone: "bad", title: "servers down" };
  return waiting > 0 ? { count: waiting, tone: "warn", title: "definitions pending approval" } : undefined;
}
