// The Node modules that scripts can import.
import { provide } from "../core.js";
import { assert, strict } from "./assert.js";
import { Buffer } from "./buffer.js";
import { crypto } from "./crypto.js";
import { EventEmitter } from "./events.js";
import { fs, promises } from "./fs.js";
import { path } from "./path.js";
import { process } from "./process.js";
import { StringDecoder, os, querystring, timers, timersPromises } from "./small.js";
import { url } from "./url.js";
import { types, util } from "./util.js";

const { Blob, File, atob, btoa, performance } = globalThis;
const limits = { MAX_LENGTH: 2 ** 32, MAX_STRING_LENGTH: 2 ** 30 - 1 };
const modules = {
  assert,
  "assert/strict": strict,
  buffer: { Buffer, Blob, File, atob, btoa, constants: limits, kMaxLength: limits.MAX_LENGTH },
  crypto,
  events: EventEmitter,
  fs,
  "fs/promises": promises,
  os,
  path,
  "path/posix": path,
  perf_hooks: { performance },
  process,
  querystring,
  string_decoder: { StringDecoder },
  timers,
  "timers/promises": timersPromises,
  url,
  util,
  "util/types": types,
};

for (const [name, exports] of Object.entries(modules)) provide("node:" + name, exports);
