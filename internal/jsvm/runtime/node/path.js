// node:path for POSIX.

function check(path) {
  if (typeof path === "string") return path;
  const e = new TypeError(`The "path" argument must be of type string. Received ${path === null ? "null" : typeof path}`);
  e.code = "ERR_INVALID_ARG_TYPE";
  throw e;
}

/** squeeze normalizes . and .. in a path. */
function squeeze(path, absolute) {
  const out = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") out.push(part);
    else if (out.length && out.at(-1) !== "..") out.pop();
    else if (!absolute) out.push("..");
  }
  return out.join("/");
}

function trimEnd(path) {
  return path.length > 1 ? path.replace(/(?<=[^])\/+$/, "") : path;
}

function extname(path) {
  const base = basename(path);
  const at = base.lastIndexOf(".");
  return at <= 0 || base === ".." ? "" : base.slice(at);
}

function basename(path, suffix) {
  if (suffix !== undefined && check(path) === suffix) return "";
  const base = trimEnd(check(path)).replace(/^[^]*\//, "");
  if (suffix === undefined || base === suffix || !base.endsWith(check(suffix))) return base;
  return base.slice(0, base.length - suffix.length);
}

function dirname(path) {
  const text = trimEnd(check(path));
  const at = text.lastIndexOf("/");
  if (at < 0) return ".";
  if (at === 0) return "/";
  return at === 1 && text[0] === "/" ? "//" : text.slice(0, at);
}

function normalize(path) {
  if (check(path) === "") return ".";
  const absolute = path[0] === "/";
  let out = squeeze(path, absolute);
  if (out === "" && !absolute) out = ".";
  if (out !== "" && path.endsWith("/")) out += "/";
  return absolute ? "/" + out : out;
}

function join(...parts) {
  const joined = parts.map(check).filter((p) => p !== "").join("/");
  return joined === "" ? "." : normalize(joined);
}

function resolve(...parts) {
  let path = "";
  for (const part of parts.map(check).reverse()) {
    if (part === "") continue;
    path = path === "" ? part : `${part}/${path}`;
    if (part[0] === "/") break;
  }
  if (path[0] !== "/") path = `${process.cwd()}/${path}`;
  return "/" + squeeze(path, true);
}

function relative(from, to) {
  const a = resolve(check(from)).split("/").filter(Boolean);
  const b = resolve(check(to)).split("/").filter(Boolean);
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  return [...a.slice(same).map(() => ".."), ...b.slice(same)].join("/");
}

function parse(path) {
  const base = basename(path);
  const ext = extname(path);
  const root = path[0] === "/" ? "/" : "";
  const before = trimEnd(path).slice(0, trimEnd(path).length - base.length);
  const dir = before.length > 1 ? before.slice(0, -1) : before;
  return { root, dir, base, ext, name: ext ? base.slice(0, -ext.length) : base };
}

function format({ root = "", dir, base, name = "", ext = "" }) {
  const file = base || name + (ext && ext[0] !== "." ? "." + ext : ext);
  const folder = dir || root;
  if (!folder) return file;
  return folder === root ? folder + file : `${folder}/${file}`;
}

/** path is node:path. */
export const path = {
  sep: "/",
  delimiter: ":",
  basename,
  dirname,
  extname,
  format,
  isAbsolute: (p) => check(p)[0] === "/",
  join,
  normalize,
  parse,
  relative,
  resolve,
  toNamespacedPath: (p) => p,
};
path.posix = path;
