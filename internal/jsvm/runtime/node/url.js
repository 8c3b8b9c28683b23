// node:url.
import { badType, failure } from "../web/base.js";
import { URLSearchParams } from "../web/searchparams.js";
import { URL } from "../web/url.js";
import { domainToASCII } from "../web/urlhost.js";
import { path as paths } from "./path.js";

export function fileURLToPath(value) {
  const url = typeof value === "string" ? new URL(value) : value;
  if (!(url instanceof URL)) throw badType('The "path" argument must be a string or a URL');
  if (url.protocol !== "file:") throw failure(TypeError, "ERR_INVALID_URL_SCHEME", "The URL must be of scheme file");
  if (url.hostname !== "") throw failure(TypeError, "ERR_INVALID_FILE_URL_HOST", "File URL host must be empty");
  if (/%2f/i.test(url.pathname)) {
    throw failure(TypeError, "ERR_INVALID_FILE_URL_PATH", "File URL path must not include encoded / characters");
  }
  return decodeURIComponent(url.pathname);
}

export function pathToFileURL(path) {
  const full = paths.resolve(path) + (path.length > 1 && path.endsWith("/") && paths.resolve(path) !== "/" ? "/" : "");
  return new URL("file://" + full.replace(/[%\\\n\r\t?#]/g, (c) => (c === "\\" ? "%5C" : encodeURIComponent(c))));
}

/** url is node:url, except for the legacy parser. */
export const url = {
  URL,
  URLSearchParams,
  fileURLToPath,
  pathToFileURL,
  domainToASCII: (domain) => domainToASCII(`${domain}`) ?? "",
  format: (value) => `${value instanceof URL ? value : new URL(value)}`,
  urlToHttpOptions: ({ protocol, hostname, hash, search, pathname, href, port }) => {
    const options = { protocol, hostname, hash, search, pathname, path: pathname + search, href };
    return port === "" ? options : { ...options, port: Number(port) };
  },
};
