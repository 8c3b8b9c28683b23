import { ArrowUp, Pause, Play, RotateCw } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Status, type Tone } from "../../components/Badge";
import { Button } from "../../components/Button";
import { Sparkline } from "../../components/charts";
import { plural, shortCount } from "../../format";
import { chartSeconds, type Stream } from "./stream";
import type { Live } from "./useLive";

type LiveBarProps = {
  live: Live;
  /** Whether the list's period includes new calls. */
  on: boolean;
  paused: boolean;
  away: boolean;
  onPause: (paused: boolean) => void;
  onTop: () => void;
  onReload: () => void;
};

/** The state of the live stream, new calls, and the call rate. */
export function LiveBar({ live, on, paused, away, onPause, onTop, onReload }: LiveBarProps) {
  if (!on) {
    return (
      <div className="Calls-bar">
        <Status tone="neutral">Live updates are off: the period has ended</Status>
        <Button size="s" icon={<RotateCw />} onClick={onReload}>Refresh</Button>
      </div>
    );
  }
  const show = () => {
    onPause(false);
    onTop();
  };
  const [tone, word] = streamStatus(live, paused);
  return (
    <div className="Calls-bar" role="group" aria-label="Live">
      <Status tone={tone} {...(live.error && { title: live.error.message })}>{word}</Status>
      <Button size="s" icon={paused ? <Play /> : <Pause />} onClick={() => onPause(!paused)}>{paused ? "Resume" : "Pause"}</Button>
      {(paused || away) && live.fresh > 0 && (
        <Button size="s" variant="primary" icon={<ArrowUp />} onClick={show}>Show {plural(live.fresh, "new call")}</Button>
      )}
      {live.lost > 0 && (
        <>
          <span className="warn small">{plural(live.lost, "event")} dropped</span>
          <Button size="s" variant="quiet" icon={<RotateCw />} onClick={onReload}>Refresh</Button>
        </>
      )}
      <Rate stream={live.stream} />
      <Announcer stream={live.stream} quiet={paused} />
    </div>
  );
}

function streamStatus({ state, error }: Live, paused: boolean): [Tone, string] {
  if (state === "refused") return ["bad", error?.message ?? "Live updates were refused"];
  if (state === "waiting") return ["warn", "Reconnecting"];
  if (state === "connecting") return ["info", "Connecting"];
  return paused ? ["neutral", "Paused"] : ["good", "Live"];
}

/** The call rate in the last minute. */
function Rate({ stream }: { stream: Stream }) {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const seconds = stream.perSecond(now);
  const errors = seconds.reduce((sum, each) => sum + each.errors, 0);
  const all = seconds.reduce((sum, each) => sum + each.ok, errors);
  const top = Math.max(...seconds.map((each) => each.ok + each.errors));
  return (
    <div className="Calls-rate">
      <div className="Calls-rate-text">
        <div><span className="strong">{shortCount(all)}</span> {all === 1 ? "call" : "calls"} in the last minute</div>
        <div className="faint">Peak {shortCount(top)}/s{errors > 0 && <span className="bad"> · {shortCount(errors)} failed</span>}</div>
      </div>
      <div className="Calls-picture">
        <Sparkline values={seconds.map((each) => each.ok + each.errors)} label={`Calls per second in the last ${chartSeconds} seconds, peak ${top}`} width={168} height={32} />
      </div>
    </div>
  );
}

const announceEvery = 15_000;

/** Announces new calls to screen readers, at most every 15 seconds. */
function Announcer({ stream, quiet }: { stream: Stream; quiet: boolean }) {
  const [text, setText] = useState("");
  const announced = useRef(0);
  useEffect(() => {
    announced.current = stream.newCalls;
    const timer = setInterval(() => {
      const fresh = stream.newCalls - announced.current;
      announced.current = stream.newCalls;
      setText(fresh > 0 && !quiet ? plural(fresh, "new call") : "");
    }, announceEvery);
    return () => clearInterval(timer);
  }, [stream, quiet]);
  return <p className="unseen" role="status">{text}</p>;
}
