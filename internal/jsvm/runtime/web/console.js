// console, which writes to the call's log.
import { call, onCall } from "../core.js";
import { install, named, tagged } from "./base.js";
import { formatWith, inspect } from "./inspect.js";

const maxText = 10000;
const options = { depth: 4, maxStringLength: maxText };
let indent, counts, times;

onCall(reset);
reset();

function reset() {
  indent = "";
  counts = new Map();
  times = new Map();
}

function write(level, text) {
  if (text.length > maxText) text = `${text.slice(0, maxText)}... ${text.length - maxText} more characters`;
  if (indent) text = indent + text.replaceAll("\n", "\n" + indent);
  call("log", level, text.toWellFormed());
}

function print(level, args) {
  let text;
  try {
    text = formatWith(options, args);
  } catch {
    text = "[something that cannot be shown]";
  }
  write(level, text);
}

function label(value) {
  try {
    return value === undefined ? "default" : `${value}`;
  } catch {
    return "default";
  }
}

function elapsed(name, args, end) {
  const start = times.get(name);
  if (start === undefined) return write("warn", `Warning: No such label '${name}' for console.time()`);
  const ms = performance.now() - start;
  if (end) times.delete(name);
  const text = ms >= 1000 ? `${(ms / 1000).toFixed(3)}s` : `${+ms.toFixed(3)}ms`;
  print("info", [`${name}: ${text}`.replaceAll("%", "%%"), ...(args.length ? args : [""])].slice(0, args.length + 1));
}

function rowsOf(data) {
  if (data instanceof Map) return [...data].map(([k, v], i) => [String(i), { Key: k, Values: v }]);
  if (data instanceof Set) return [...data].map((v, i) => [String(i), v]);
  return Object.keys(data).map((k) => [k, Object.getOwnPropertyDescriptor(data, k)?.value]);
}

function cell(value) {
  return inspect(value, { depth: 0, maxStringLength: 200, breakLength: 1000 }).replaceAll("\n", " ");
}

function tableText(data, only) {
  const rows = rowsOf(data).slice(0, 100);
  const columns = new Set(["(index)"]);
  const lines = rows.map(([index, value]) => {
    const line = { "(index)": index };
    if (typeof value !== "object" || value === null) line.Values = cell(value);
    else for (const [k, v] of rowsOf(value).slice(0, 50)) if (!only || only.includes(k)) line[k] = cell(v);
    for (const k of Object.keys(line)) if (k !== "Values") columns.add(k);
    return line;
  });
  if (lines.some((l) => "Values" in l)) columns.add("Values");
  const names = [...columns];
  const all = [Object.fromEntries(names.map((n) => [n, n])), ...lines];
  const widths = names.map((n) => Math.max(...all.map((l) => (l[n] ?? "").length)));
  const text = all.map((l) => names.map((n, i) => (l[n] ?? "").padEnd(widths[i])).join(" | ").trimEnd());
  text.splice(1, 0, widths.map((w) => "-".repeat(w)).join("-+-"));
  return text.join("\n");
}

class Console {
  log(...args) { print("info", args); }
  info(...args) { print("info", args); }
  debug(...args) { print("debug", args); }
  warn(...args) { print("warn", args); }
  error(...args) { print("error", args); }
  trace(...args) {
    const stack = new Error().stack.split("\n").slice(1).join("\n").trimEnd();
    const text = args.length ? `Trace: ${formatWith(options, args)}` : "Trace";
    print("debug", ["%s\n%s", text, stack]);
  }
  assert(condition, ...args) {
    if (condition) return;
    if (typeof args[0] === "string") args[0] = `Assertion failed: ${args[0]}`;
    else args.unshift("Assertion failed");
    print("error", args);
  }
  table(data, columns) {
    if (typeof data !== "object" || data === null) return print("info", [data]);
    try {
      write("info", tableText(data, Array.isArray(columns) ? columns : undefined));
    } catch {
      print("info", [data]);
    }
  }
  dir(value, given) { write("info", inspect(value, { ...options, ...given })); }
  dirxml(...args) { print("info", args); }
  time(name) { times.set(label(name), performance.now()); }
  timeEnd(name) { elapsed(label(name), [], true); }
  timeLog(name, ...args) { elapsed(label(name), args, false); }
  count(name) {
    const n = (counts.get(label(name)) ?? 0) + 1;
    counts.set(label(name), n);
    write("info", `${label(name)}: ${n}`);
  }
  countReset(name) { counts.delete(label(name)); }
  group(...args) {
    if (args.length) print("info", args);
    indent += "  ";
  }
  groupCollapsed(...args) { this.group(...args); }
  groupEnd() { indent = indent.slice(2); }
}

/** console has bound methods, so that they can be passed as callbacks. */
const bound = Object.create(tagged("console", Console).prototype);
for (const key of Object.getOwnPropertyNames(Console.prototype)) {
  if (key === "constructor") continue;
  const value = named(key, bound[key].bind(bound));
  Object.defineProperty(bound, key, { value, writable: true, configurable: true, enumerable: true });
}

install({ console: bound });
