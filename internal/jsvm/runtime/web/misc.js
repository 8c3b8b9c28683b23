// performance, navigator and self.
import { onCall } from "../core.js";
import { hide, install, named, tagged } from "./base.js";

const clock = performance.now.bind(performance);
let started = 0;
let origin = 0;

onCall(reset);
reset();

// The time starts anew with each call: the engine's own start is that of the image.
function reset() {
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
  get timeOrigin() { return origin; }
  now() { return clock() - started; }
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
  toJSON() { return { timeOrigin: origin }; }
}

class Navigator {
  get userAgent() { return "toolyard"; }
}

named("PerformanceEntry", PerformanceEntry);
tagged("Performance", Performance);
install({ performance: new Performance(), navigator: new (tagged("Navigator", Navigator))(), self: globalThis });
for (const key of ["performance", "atob", "btoa", "queueMicrotask", "DOMException"]) hide(globalThis, key, globalThis[key]);
