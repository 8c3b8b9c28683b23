// node:fs and node:fs/promises: read access to granted files, no write access.
import { ask, post } from "../core.js";
import { badType, fromB64, hide, named, notCapable, utf8Decode } from "../web/base.js";
import { Buffer } from "./buffer.js";
import { path as paths } from "./path.js";
import { fileURLToPath } from "./url.js";

const constants = { F_OK: 0, X_OK: 1, W_OK: 2, R_OK: 4, O_RDONLY: 0, COPYFILE_EXCL: 1 };
const writing = (
  "appendFile chmod chown copyFile cp fchmod fchown fsync ftruncate futimes lchmod lchown link lutimes mkdir mkdtemp " +
  "rename rm rmdir symlink truncate unlink utimes write writeFile writev"
).split(" ");
const missing = "close fstat open opendir read readlink readv statfs".split(" ");

function pathOf(value) {
  if (typeof value === "string" && !value.includes("\0")) return value;
  if (value instanceof URL) return fileURLToPath(value);
  if (value instanceof Uint8Array) return utf8Decode(value);
  throw badType('The "path" argument must be a string, a Buffer or a URL, without null bytes');
}

class Stats {
  constructor({ file, directory, size = 0, mtimeMs = 0 }) {
    const mode = directory ? 0o40555 : file ? 0o100444 : 0o444;
    Object.assign(this, { dev: 0, ino: 0, mode, nlink: 1, uid: 0, gid: 0, rdev: 0, size });
    for (const kind of ["atime", "mtime", "ctime", "birthtime"]) {
      this[kind + "Ms"] = mtimeMs;
      this[kind] = new Date(mtimeMs);
    }
  }
  isFile() { return (this.mode & 0o170000) === 0o100000; }
  isDirectory() { return (this.mode & 0o170000) === 0o40000; }
}

/** Dirent is a directory entry. */
class Dirent {
  #kind;

  constructor({ name, file, directory }, parent) {
    this.name = name;
    this.parentPath = this.path = parent;
    this.#kind = { file, directory };
  }
  isFile() { return Boolean(this.#kind.file); }
  isDirectory() { return Boolean(this.#kind.directory); }
}
for (const Type of [named("Stats", Stats), named("Dirent", Dirent)]) {
  for (const kind of ["SymbolicLink", "FIFO", "Socket", "BlockDevice", "CharacterDevice"]) {
    hide(Type.prototype, `is${kind}`, () => false);
  }
}

const encodingOf = (options) => (typeof options === "string" ? options : options?.encoding);

function content({ data }, options) {
  const bytes = fromB64(data);
  const buffer = new Buffer(bytes.buffer, bytes.byteOffset, bytes.length);
  const encoding = encodingOf(options);
  return encoding && encoding !== "buffer" ? buffer.toString(encoding) : buffer;
}

function entries(list, path, options) {
  return list.map((entry) => (options?.withFileTypes ? new Dirent(entry, path) : entry.name));
}

function mayNotWrite(name) {
  return notCapable(`scripts cannot write files (fs.${name})`);
}

function checkMode(mode = 0) {
  if (mode & constants.W_OK) throw mayNotWrite("access");
}

// Each operation is a generator that yields host requests, shared by its three forms.
const reading = {
  *readFile(path, options) { return content(yield ["read", { path: pathOf(path) }], options); },
  *stat(path, options) {
    try {
      return new Stats(yield ["stat", { path: pathOf(path) }]);
    } catch (e) {
      if (options?.throwIfNoEntry === false && e.code === "ENOENT") return undefined;
      throw e;
    }
  },
  *readdir(path, options) {
    if (!options?.recursive) return entries(yield ["list", { path: pathOf(path) }], pathOf(path), options);
    const out = [];
    const folders = [""];
    for (const below of folders) {
      const folder = below === "" ? pathOf(path) : paths.join(pathOf(path), below);
      for (const entry of yield ["list", { path: folder }]) {
        const name = below === "" ? entry.name : `${below}/${entry.name}`;
        if (entry.directory) folders.push(name);
        out.push(options.withFileTypes ? new Dirent(entry, folder) : name);
      }
    }
    return out;
  },
  *access(path, mode) {
    checkMode(mode);
    yield ["stat", { path: pathOf(path) }];
  },
  *realpath(path) {
    yield ["stat", { path: pathOf(path) }];
    return paths.resolve(pathOf(path));
  },
};
reading.lstat = reading.stat;

function runSync(steps) {
  let step = steps.next();
  while (!step.done) {
    let answer;
    try {
      answer = ask(...step.value);
    } catch (e) {
      step = steps.throw(e);
      continue;
    }
    step = steps.next(answer);
  }
  return step.value;
}

async function runAsync(steps) {
  let step = steps.next();
  while (!step.done) {
    let answer;
    try {
      answer = await post(...step.value);
    } catch (e) {
      step = steps.throw(e);
      continue;
    }
    step = steps.next(answer);
  }
  return step.value;
}

function existsSync(path) {
  try {
    runSync(reading.stat(path));
    return true;
  } catch {
    return false;
  }
}

/** promises is node:fs/promises. */
export const promises = { constants };

/** fs is node:fs. */
export const fs = { constants, promises, existsSync, Stats, Dirent, ...constants };

/** add defines an operation in its three forms. run returns a promise, and runNow returns the result. */
function add(name, run, runNow) {
  promises[name] = run;
  fs[name + "Sync"] = runNow;
  fs[name] = (...args) => {
    const done = args.pop();
    if (typeof done !== "function") throw badType("The callback must be a function");
    run(...args).then(
      (value) => done(null, value),
      (e) => done(e),
    );
  };
}

function refuse(name, error) {
  const now = () => {
    throw error(name);
  };
  add(name, async () => now(), now);
}

for (const [name, steps] of Object.entries(reading)) {
  add(name, async (...args) => runAsync(steps(...args)), (...args) => runSync(steps(...args)));
}
for (const name of writing) refuse(name, mayNotWrite);
for (const name of missing) refuse(name, (n) => notCapable(`scripts cannot open files (fs.${n}); use fs.readFile`));
fs.exists = (path, done) => void promises.stat(path).then(() => done(true), () => done(false));
fs.createWriteStream = fs.writeFileSync;
fs.createReadStream = fs.watch = fs.watchFile = fs.unwatchFile = fs.openSync;
