// The subset of node:crypto that the host supports.
import { badRange, failure, named } from "../web/base.js";
import { crypto as webcrypto, digest, hmac, randomBytes, sameBytes } from "../web/crypto.js";
import { Buffer } from "./buffer.js";
import { dataBytes } from "./codec.js";

const algorithms = { md5: "md5", sha1: "sha-1", sha256: "sha-256", sha384: "sha-384", sha512: "sha-512" };

function algorithmOf(name) {
  const plain = `${name}`.toLowerCase().replace(/^(rsa-)?sha-?/, "sha");
  if (Object.hasOwn(algorithms, plain)) return algorithms[plain];
  throw failure(Error, "ERR_CRYPTO_INVALID_DIGEST", `Digest method not supported: ${name}`);
}

const output = (bytes, encoding) => {
  const buffer = new Buffer(bytes.buffer, bytes.byteOffset, bytes.length);
  return encoding && encoding !== "buffer" ? buffer.toString(encoding) : buffer;
};

/** Hash collects data; the host computes the digest at the end. */
class Hash {
  #finish;
  #chunks;
  #done = false;

  constructor(finish, chunks = []) {
    this.#finish = finish;
    this.#chunks = chunks;
  }
  update(data, encoding) {
    if (this.#done) throw failure(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
    this.#chunks.push(typeof data === "string" ? dataBytes(data, encoding) : dataBytes(data).slice());
    return this;
  }
  digest(encoding) {
    if (this.#done) throw failure(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
    this.#done = true;
    return output(this.#finish(Buffer.concat(this.#chunks)), encoding);
  }
  copy() {
    if (this.#done) throw failure(Error, "ERR_CRYPTO_HASH_FINALIZED", "Digest already called");
    return new Hash(this.#finish, [...this.#chunks]);
  }
}
named("Hash", Hash);

function randomInt(min, max, done) {
  if (typeof max !== "number") [min, max, done] = [0, min, max];
  const range = max - min;
  if (!Number.isSafeInteger(min) || !Number.isSafeInteger(max) || !(range > 0) || range >= 2 ** 48) {
    throw badRange("The range must be of safe integers, and less than 2^48 wide");
  }
  const top = 2 ** 48 - (2 ** 48 % range);
  let n = top;
  while (n >= top) n = Buffer.from(randomBytes(6)).readUIntBE(0, 6);
  const value = min + (n % range);
  if (typeof done !== "function") return value;
  queueMicrotask(() => done(null, value));
}

function fillRandom(target, offset = 0, size = target.byteLength - offset) {
  dataBytes(target).set(randomBytes(size), offset);
  return target;
}

/** crypto is node:crypto. */
export const crypto = {
  webcrypto,
  subtle: webcrypto.subtle,
  getRandomValues: (array) => webcrypto.getRandomValues(array),
  randomUUID: () => webcrypto.randomUUID(),
  randomInt,
  randomBytes(n, done) {
    const bytes = output(randomBytes(n));
    if (typeof done !== "function") return bytes;
    queueMicrotask(() => done(null, bytes));
  },
  randomFillSync: fillRandom,
  createHash(name) {
    const algorithm = algorithmOf(name);
    return new Hash((bytes) => digest(algorithm, bytes));
  },
  createHmac(name, key) {
    const algorithm = algorithmOf(name);
    const secret = dataBytes(key).slice();
    return new Hash((bytes) => hmac(algorithm, secret, bytes));
  },
  hash: (name, data, encoding = "hex") => output(digest(algorithmOf(name), dataBytes(data)), encoding),
  getHashes: () => Object.keys(algorithms),
  timingSafeEqual(a, b) {
    const [x, y] = [dataBytes(a), dataBytes(b)];
    if (x.length !== y.length) {
      throw failure(RangeError, "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length");
    }
    return sameBytes(x, y);
  },
};
