import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Ellipsis, LogOut, Monitor, Moon, Sun, Unplug, Wrench } from "lucide-react";
import { type ReactNode, useState } from "react";
import { signOut } from "../api/actions";
import { queries } from "../api/queries";
import type { Me, Overview } from "../api/types";
import { clockSeconds } from "../format";
import { visible } from "../format/visible";
import { health } from "../health";
import { canView } from "../session";
import { setTheme, type Theme, useTheme } from "../theme";
import { Status } from "./Badge";
import { IconButton } from "./Button";
import { type NavItem, navigationOf, phoneNavigation } from "./navigation";
import { SearchBox } from "./SearchBox";
import { useUnreachableSince } from "./useUnreachable";
import "./Layout.css";

/** The console's layout: navigation, the yard's health and the signed-in caller. */
export function Layout({ me, children }: { me: Me; children: ReactNode }) {
  const all = canView(me);
  const overview = useQuery({ ...queries.overview(), enabled: all });
  const unreachable = useUnreachableSince();
  return (
    <div className={unreachable ? "Layout Layout-lost" : "Layout"}>
      <a className="Layout-skip" href="#main" onClick={focusMain}>Skip to content</a>
      <Sidebar me={me} overview={overview.data} />
      <Topbar me={me} overview={overview.data} unreachable={unreachable !== undefined} />
      <main id="main" className="Layout-main" tabIndex={-1}>
        {unreachable && <UnreachableBanner since={unreachable} />}
        {children}
      </main>
      <BottomBar all={all} overview={overview.data} />
    </div>
  );
}

/** Warns that the data on the page may be out of date. */
function UnreachableBanner({ since }: { since: number }) {
  return (
    <p className="Layout-banner" role="alert">
      <Unplug aria-hidden="true" />
      <span><strong>Cannot reach the yard.</strong> This page shows data from {clockSeconds(new Date(since).toISOString())} and updates when the connection is restored.</span>
    </p>
  );
}

function focusMain(event: { preventDefault: () => void }) {
  event.preventDefault(); // the router controls the URL fragment
  document.getElementById("main")?.focus();
}

function Sidebar({ me, overview }: { me: Me; overview: Overview | undefined }) {
  return (
    <nav className="Layout-sidebar" aria-label="Main">
      <Link to="/" className="Layout-brand" title={me.yard}>
        <span className="Layout-logo" aria-hidden="true"><Wrench /></span>
        <span className="cut">{me.yard || "Toolyard"}</span>
      </Link>
      {navigationOf(canView(me)).map((group) => (
        <div key={group.title} className="Layout-group">
          {group.title !== "" && <p className="Layout-group-title">{group.title}</p>}
          <ul>
            {group.items.map((item) => (
              <li key={item.to}><NavLink item={item} overview={overview} /></li>
            ))}
          </ul>
        </div>
      ))}
      <p className="Layout-version faint small cut" title={me.version}>Toolyard {me.version}</p>
    </nav>
  );
}

function NavLink({ item, overview, onClick }: { item: NavItem; overview: Overview | undefined; onClick?: () => void }) {
  const { icon: Icon } = item;
  const badge = overview && item.badge?.(overview);
  return (
    <Link to={item.to} className="Layout-link" title={item.name} activeOptions={{ exact: item.to === "/" }} onClick={onClick}>
      <Icon aria-hidden="true" />
      <span className="grow cut">{item.name}</span>
      {badge && <span className={`Layout-badge Layout-badge-${badge.tone}`} title={badge.title}>{badge.count}<span className="unseen"> {badge.title}</span></span>}
    </Link>
  );
}

function Topbar({ me, overview, unreachable }: { me: Me; overview: Overview | undefined; unreachable: boolean }) {
  return (
    <header className="Layout-top">
      <Link to="/" className="Layout-yard cut only-narrow">{me.yard || "Toolyard"}</Link>
      {canView(me) && (
        <>
          <Health overview={overview} unreachable={unreachable} />
          <SearchBox />
        </>
      )}
      <div className="Layout-who">
        <ThemeButton />
        <span className="Layout-me only-wide" title={`${me.caller}${me.account ? `, account ${me.account}` : ""}`}>
          <span className="cut">{visible(me.name ?? me.caller)}</span>
          <span className="faint small cut">{canView(me) ? me.role : me.account}</span>
        </span>
        <SignOutButton />
      </div>
    </header>
  );
}

function Health({ overview, unreachable }: { overview: Overview | undefined; unreachable: boolean }) {
  const [tone, word] = unreachable ? (["bad", "Unreachable"] as const) : overview ? health(overview) : (["neutral", "…"] as const);
  return <div className="Layout-health" role="status"><Status tone={tone}>{word}</Status></div>;
}

const themes: Record<Theme, { next: Theme; icon: typeof Sun }> = {
  system: { next: "light", icon: Monitor },
  light: { next: "dark", icon: Sun },
  dark: { next: "system", icon: Moon },
};

function ThemeButton() {
  const now = useTheme();
  const { next, icon: Icon } = themes[now];
  return <IconButton label={`Theme: ${now}. Switch to ${next}`} icon={<Icon />} onClick={() => setTheme(next)} />;
}

function SignOutButton() {
  const client = useQueryClient();
  const leave = async () => {
    await signOut().catch(() => undefined); // signing out must also work offline
    client.clear();
    location.assign("/console/");
  };
  return <IconButton label="Sign out" icon={<LogOut />} onClick={leave} />;
}

function BottomBar({ all, overview }: { all: boolean; overview: Overview | undefined }) {
  const [open, setOpen] = useState(false);
  const { bar, more } = phoneNavigation(all);
  const close = () => setOpen(false);
  return (
    <nav className="Layout-bottom" aria-label="Main (small screens)" onKeyDown={(e) => e.key === "Escape" && close()}>
      {open && (
        <ul className="Layout-sheet" id="more">
          {more.map((item) => (
            <li key={item.to}><NavLink item={item} overview={overview} onClick={close} /></li>
          ))}
        </ul>
      )}
      <div className="Layout-bar">
        {bar.map((item) => (
          <Link key={item.to} to={item.to} className="Layout-tab" activeOptions={{ exact: item.to === "/" }} onClick={close}>
            <item.icon aria-hidden="true" />
            {item.name}
          </Link>
        ))}
        {more.length > 0 && (
          <button type="button" className="Layout-tab" aria-expanded={open} aria-controls="more" onClick={() => setOpen(!open)}>
            <Ellipsis aria-hidden="true" />
            More
          </button>
        )}
      </div>
    </nav>
  );
}
