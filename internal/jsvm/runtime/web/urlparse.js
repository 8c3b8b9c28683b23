// The URL parser. A parsed URL is a record {scheme, username, password, host, port, path, query,
// fragment}; path is a list of segments or, if the URL is opaque, a string.
import { percentEncode, sets } from "./percent.js";
import { parseHost } from "./urlhost.js";

/** defaultPorts are the special schemes and their ports. */
export const defaultPorts = { "http:": 80, "https:": 443, "ws:": 80, "wss:": 443, "ftp:": 21, "file:": null };

const drive = /^[a-z][:|]$/i;
const drivePrefix = /^[a-z][:|]([/\\?#]|$)/i;
const normalDrive = /^[a-z]:$/i;
const oneDot = /^(\.|%2e)$/i;
const twoDots = /^(\.|%2e)(\.|%2e)$/i;

/** isSpecial reports whether a scheme is special. */
export const isSpecial = (url) => Object.hasOwn(defaultPorts, url.scheme);

/** clean removes the characters that the parser ignores. */
export const clean = (text) => text.replace(/[\t\n\r]/g, "");

function blank(scheme) {
  return { scheme, username: "", password: "", host: null, port: null, path: [], query: null, fragment: null };
}

/** split splits a text before the first match of a pattern. */
function split(text, pattern) {
  const at = text.search(pattern);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at)];
}

/** parseURL parses a URL, optionally relative to a parsed base. It returns null if the URL is invalid. */
export function parseURL(input, base) {
  const text = clean(input.toWellFormed().replace(/^[\x00-\x20]+|[\x00-\x20]+$/g, ""));
  const match = /^([a-z][a-z0-9+.-]*:)([^]*)$/i.exec(text);
  if (!match) return base ? parseWithoutScheme(text, base) : null;
  const url = blank(match[1].toLowerCase());
  const rest = match[2];
  if (url.scheme === "file:") return parseFile(url, rest, base?.scheme === "file:" ? base : null);
  if (isSpecial(url)) {
    if (base?.scheme === url.scheme && !rest.startsWith("//")) return parseRelative(url, rest, base);
    return parseAuthority(url, rest.replace(/^[/\\]+/, ""));
  }
  if (rest.startsWith("//")) return parseAuthority(url, rest.slice(2));
  if (rest.startsWith("/")) return parsePath(url, rest.slice(1));
  return parseOpaque(url, rest);
}

function parseWithoutScheme(text, base) {
  if (typeof base.path === "string") {
    return text.startsWith("#") ? parseTail({ ...base, fragment: null }, text) : null;
  }
  const url = blank(base.scheme);
  return base.scheme === "file:" ? parseFile(url, text, base) : parseRelative(url, text, base);
}

function inherit(url, base) {
  for (const key of ["username", "password", "host", "port"]) url[key] = base[key];
}

function parseRelative(url, text, base) {
  const slash = isSpecial(url) ? /^[/\\]/ : /^\//;
  if (slash.test(text)) {
    if (slash.test(text.slice(1))) {
      return parseAuthority(url, isSpecial(url) ? text.replace(/^[/\\]+/, "") : text.slice(2));
    }
    inherit(url, base);
    return parsePath(url, text.slice(1));
  }
  inherit(url, base);
  return parseFromBase(url, text, base);
}

/** parseFromBase parses a relative reference that has no leading slash. */
function parseFromBase(url, text, base) {
  url.path = [...base.path];
  if (text === "" || text[0] === "#" || text[0] === "?") {
    url.query = base.query;
    return parseTail(url, text);
  }
  shorten(url);
  return parsePath(url, text);
}

function parseAuthority(url, text) {
  const [authority, rest] = split(text, isSpecial(url) ? /[/\\?#]/ : /[/?#]/);
  const at = authority.lastIndexOf("@");
  if (at >= 0) {
    const [, username, password = ""] = /^([^:]*):?([^]*)$/.exec(authority.slice(0, at));
    url.username = percentEncode(username, sets.userinfo);
    url.password = percentEncode(password, sets.userinfo);
  }
  const { host, port } = splitPort(authority.slice(at + 1));
  if (host === "" && (at >= 0 || port !== null || isSpecial(url))) return null;
  url.host = host === "" ? "" : parseHost(host, isSpecial(url));
  if (url.host === null || !setPort(url, port ?? "")) return null;
  return parsePathStart(url, rest);
}

/** splitPort splits host and port. */
export function splitPort(text) {
  let inside = false;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "[") inside = true;
    else if (text[i] === "]") inside = false;
    else if (text[i] === ":" && !inside) return { host: text.slice(0, i), port: text.slice(i + 1) };
  }
  return { host: text, port: null };
}

/** setPort sets a port if the text is valid. */
export function setPort(url, text) {
  if (text === "") return true;
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65535) return false;
  url.port = defaultPorts[url.scheme] === port ? null : port;
  return true;
}

function parsePathStart(url, text) {
  if (isSpecial(url)) return parsePath(url, /^[/\\]/.test(text) ? text.slice(1) : text);
  if (text === "" || text[0] === "?" || text[0] === "#") return parseTail(url, text);
  return parsePath(url, text.slice(1));
}

function parsePath(url, text) {
  const [path, rest] = split(text, /[?#]/);
  appendPath(url, path);
  return parseTail(url, rest);
}

/** appendPath appends segments to the path of a URL. */
export function appendPath(url, text) {
  const segments = text.split(isSpecial(url) ? /[/\\]/ : "/");
  segments.forEach((segment, i) => {
    const last = i === segments.length - 1;
    if (twoDots.test(segment)) {
      shorten(url);
      if (last) url.path.push("");
    } else if (oneDot.test(segment)) {
      if (last) url.path.push("");
    } else {
      if (url.scheme === "file:" && url.path.length === 0 && drive.test(segment)) segment = segment[0] + ":";
      url.path.push(percentEncode(segment, sets.path));
    }
  });
}

function shorten(url) {
  if (url.scheme === "file:" && url.path.length === 1 && normalDrive.test(url.path[0])) return;
  url.path.pop();
}

function parseFile(url, text, base) {
  url.host = "";
  if (/^[/\\]{2}/.test(text)) return parseFileHost(url, text.slice(2));
  if (/^[/\\]/.test(text)) {
    const rest = text.slice(1);
    if (base) {
      url.host = base.host;
      if (!drivePrefix.test(rest) && normalDrive.test(base.path[0] ?? "")) url.path.push(base.path[0]);
    }
    return parsePath(url, rest);
  }
  if (!base) return parsePath(url, text);
  url.host = base.host;
  return drivePrefix.test(text) ? parsePath(url, text) : parseFromBase(url, text, base);
}

function parseFileHost(url, text) {
  const [name, rest] = split(text, /[/\\?#]/);
  if (drive.test(name)) return parsePath(url, text);
  if (name !== "") {
    const host = parseHost(name, true);
    if (host === null) return null;
    url.host = host === "localhost" ? "" : host;
  }
  return parsePathStart(url, rest);
}

function parseOpaque(url, text) {
  const [path, rest] = split(text, /[?#]/);
  url.path = percentEncode(path, sets.control).replace(/ $/, "%20"); // encodes a space before ? or #
  return parseTail(url, rest);
}

/** parseTail parses a query and a fragment. */
function parseTail(url, text) {
  const [query, fragment] = split(text, /#/);
  if (query !== "") url.query = encodeQuery(url, query.slice(1));
  if (fragment !== "") url.fragment = percentEncode(fragment.slice(1), sets.fragment);
  return url;
}

/** encodeQuery encodes a query by its scheme's rules. */
export function encodeQuery(url, text) {
  return percentEncode(text, isSpecial(url) ? sets.specialQuery : sets.query);
}

/** pathText serializes the path of a URL. */
export function pathText(url) {
  return typeof url.path === "string" ? url.path : url.path.map((s) => "/" + s).join("");
}

/** hostText serializes the host and port. */
export function hostText(url) {
  if (url.host === null) return "";
  return url.port === null ? url.host : `${url.host}:${url.port}`;
}

/** urlText serializes a URL. */
export function urlText(url) {
  let text = url.scheme;
  if (url.host !== null) {
    text += "//" + url.username;
    if (url.password !== "") text += ":" + url.password;
    if (url.username !== "" || url.password !== "") text += "@";
    text += hostText(url);
  } else if (typeof url.path !== "string" && url.path.length > 1 && url.path[0] === "") text += "/.";
  text += pathText(url);
  if (url.query !== null) text += "?" + url.query;
  return url.fragment === null ? text : text + "#" + url.fragment;
}
