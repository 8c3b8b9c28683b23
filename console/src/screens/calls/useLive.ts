import { useEffect, useMemo, useRef, useState } from "react";
import type { ApiError } from "../../api/client";
import { followCalls, type LiveState } from "../../api/live";
import type { CallFilter, LiveFilter } from "../../api/types";
import { type Row, Stream } from "./stream";

const flushInterval = 250; // ms between renders
const replayTime = 400; // ms after connecting during which the replay arrives

export type Live = {
  state: LiveState;
  error: ApiError | undefined;
  rows: Row[];
  /** New calls since the list was paused. */
  fresh: number;
  /** Events that the yard dropped because this page was too slow. */
  lost: number;
  stream: Stream;
};

type Shown = { rows: Row[]; newCalls: number; fresh: number; lost: number; version: number; held: boolean };

const nothing: Shown = { rows: [], newCalls: 0, fresh: 0, lost: 0, version: -1, held: false };

/**
 * Follows live calls. Events are batched and rendered four times a second. While the list is
 * paused, existing rows are updated in place and new ones only counted.
 */
export function useLive(filter: CallFilter, held: boolean, on: boolean, onGap: () => void): Live {
  const key = JSON.stringify(filter);
  const stream = useMemo(() => new Stream(JSON.parse(key) as CallFilter), [key]);
  const [state, setState] = useState<LiveState>("connecting");
  const [error, setError] = useState<ApiError>();
  const [shown, setShown] = useState<Shown>(nothing);
  const gap = useRef(onGap);
  useEffect(() => {
    gap.current = onGap;
  });

  useEffect(() => {
    setShown(nothing);
    if (!on) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let before = false;
    const stop = followCalls(liveFilter(JSON.parse(key) as CallFilter), {
      begin: (call) => stream.begin(call),
      call: (call) => stream.end(call, Date.now()),
      lost: (count) => stream.addLost(count),
      state: (now, cause) => {
        setState(now);
        setError(cause);
        if (now !== "live") return;
        stream.connected();
        timer = setTimeout(() => stream.caughtUp(), replayTime);
        if (before) gap.current();
        before = true;
      },
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [key, on, stream]);

  useEffect(() => {
    const flush = () => setShown((old) => next(old, stream, held));
    flush();
    const timer = setInterval(flush, flushInterval);
    return () => clearInterval(timer);
  }, [stream, held]);

  return { state, error, rows: shown.rows, fresh: shown.fresh, lost: shown.lost, stream };
}

function next(old: Shown, stream: Stream, held: boolean): Shown {
  const { version, newCalls, lost } = stream;
  if (old.version === version && old.held === held) return old;
  if (!held) return { rows: stream.rows(), newCalls, fresh: 0, lost, version, held };
  return { rows: stream.refresh(old.rows), newCalls: old.newCalls, fresh: newCalls - old.newCalls, lost, version, held };
}

/** The part of the filter that the API applies. */
function liveFilter({ account, caller, server, tool, gate, failed }: CallFilter): LiveFilter {
  return { account, caller, server, tool, gate, failed };
}
