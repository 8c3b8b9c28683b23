// performance, navigator and self.
import { onCall } from "../core.js";
import { hide, install, named, tagged } from "./base.js";

const clock = performance.now.bind(performance);
let started;
let origin;

onCall(() => {
  started = undefined;
});

/** begin starts the clock at its first use in a call, because the engine started with the image. */
function begin() {
  if (started !== undefined) return;
  started = clock();
  origin = Date.now();
}

class PerformanceEntry {
  constructor(name, entryType, startTime, duration, detail) {
    Object.assign(this, { name, entryType, startTime, duration, detail });
  }
  toJSON() { return { ...this }; }
}

const markTime = (mark, or) => (typeof mark === "number" ? mark : or);

class Performance {
  get timeOrigin() { begin(); return origin; }
  now() { begin(); return clock() - started; }
  mark(name, options) {
    return new PerformanceEntry(`${name}`, "mark", markTime(options?.startTime, this.now()), 0, options?.detail ?? null);
  }
  measure(name, options, end) {
    const from = markTime(typeof options === "object" ? options?.start : options, 0);
    const to = markTime(typeof options === "object" ? options?.end : end, this.now());
    return new PerformanceEntry(`${name}`, "measure", from, to - from, options?.detail ?? null);
  }
  clearMarks() {}
  clearMeasures() {}
  getEntries() { return []; }
  getEntriesByName() { return []; }
  getEntriesByType() { return []; }
  toJSON() { return { timeOrigin: this.timeOrigin }; }
}

class Navigator {
  get userAgent() { return "toolyard"; }
}

named("PerformanceEntry", PerformanceEntry);
tagged("Performance", Performance);
install({ performance: new Performance(), navigator: new (tagged("Navigator", Navigator))(), self: globalThis });
for (const key of ["performance", "atob", "btoa", "queueMicrotask", "DOMException"]) hide(globalThis, key, globalThis[key]);
