// crypto and Math.random.
import { call, onCall } from "../core.js";
import { bytesOf, fromB64, hide, install, shownAs, tagged, toB64 } from "./base.js";

const hashes = { "SHA-1": 512, "SHA-256": 512, "SHA-384": 1024, "SHA-512": 1024 };
const integerArrays = ["Int8", "Uint8", "Uint8Clamped", "Int16", "Uint16", "Int32", "Uint32", "BigInt64", "BigUint64"];
const kindOf = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;

/** randomBytes returns cryptographically secure random bytes. */
export const randomBytes = (n) => (n === 0 ? new Uint8Array(0) : fromB64(call("random", n)));

/** digest returns the hash of bytes. */
export const digest = (algorithm, bytes) => fromB64(call("digest", algorithm, toB64(bytes)));

/** hmac returns the keyed hash of bytes. */
export const hmac = (algorithm, key, bytes) => fromB64(call("hmac", algorithm, toB64(key), toB64(bytes)));

/** sameBytes compares two arrays of equal length in constant time. */
export function sameBytes(a, b) {
  let diff = 0;
  for (let i = 0; i < a.length; i++) diff |= a[i] ^ b[i];
  return diff === 0;
}

function unsupported(what) {
  return new DOMException(`${what} is not supported`, "NotSupportedError");
}

function hashName(algorithm) {
  const name = `${typeof algorithm === "object" && algorithm !== null ? algorithm.name : algorithm}`.toUpperCase();
  if (!Object.hasOwn(hashes, name)) throw unsupported(`the algorithm ${name}`);
  return name;
}

function mustBeHMAC(algorithm) {
  const name = `${typeof algorithm === "object" && algorithm !== null ? algorithm.name : algorithm}`.toUpperCase();
  if (name !== "HMAC") throw unsupported(`the algorithm ${name}`);
}

const secret = Symbol("CryptoKey");
let keyBytes;

/** CryptoKey is a key created by importKey. */
class CryptoKey {
  #bytes;
  #fields;

  constructor(given, bytes, fields) {
    if (given !== secret) throw new TypeError("Illegal constructor");
    this.#bytes = bytes;
    this.#fields = fields;
  }
  static {
    keyBytes = (key, usage) => {
      if (!(key instanceof CryptoKey)) throw new TypeError("parameter 2 is not of type CryptoKey.");
      if (!key.usages.includes(usage)) {
        throw new DOMException(`The key cannot be used to ${usage}`, "InvalidAccessError");
      }
      return key.#bytes;
    };
  }
  get type() { return "secret"; }
  get extractable() { return this.#fields.extractable; }
  get algorithm() { return this.#fields.algorithm; }
  get usages() { return this.#fields.usages; }
}

function checkUsages(usages) {
  const list = [...new Set(usages)];
  if (list.length === 0 || list.some((u) => u !== "sign" && u !== "verify")) {
    throw new DOMException("The usages of an HMAC key are sign and verify", "SyntaxError");
  }
  return list;
}

class SubtleCrypto {
  async digest(algorithm, data) { return digest(hashName(algorithm).toLowerCase(), bytesOf(data)).buffer; }
  async importKey(format, data, algorithm, extractable, usages) {
    if (format !== "raw") throw unsupported(`the key format ${format}`);
    mustBeHMAC(algorithm);
    const bytes = bytesOf(data).slice();
    if (bytes.length === 0) throw new DOMException("Zero-length key is not supported", "DataError");
    const details = { name: "HMAC", hash: { name: hashName(algorithm.hash) }, length: bytes.length * 8 };
    const fields = { extractable: Boolean(extractable), algorithm: details, usages: checkUsages(usages) };
    return new CryptoKey(secret, bytes, fields);
  }
  async sign(algorithm, key, data) {
    mustBeHMAC(algorithm);
    const bytes = keyBytes(key, "sign");
    return hmac(key.algorithm.hash.name.toLowerCase(), bytes, bytesOf(data)).buffer;
  }
  async verify(algorithm, key, signature, data) {
    mustBeHMAC(algorithm);
    const bytes = keyBytes(key, "verify");
    const want = hmac(key.algorithm.hash.name.toLowerCase(), bytes, bytesOf(data));
    const got = bytesOf(signature);
    return want.length === got.length && sameBytes(want, got);
  }
}
for (const name of "encrypt decrypt deriveBits deriveKey generateKey exportKey wrapKey unwrapKey".split(" ")) {
  hide(SubtleCrypto.prototype, name, async () => {
    throw unsupported(`crypto.subtle.${name}`);
  });
}

class Crypto {
  get subtle() { return subtle; }
  getRandomValues(array) {
    const kind = ArrayBuffer.isView(array) ? kindOf.call(array) : undefined;
    if (!kind || !integerArrays.includes(kind.replace(/Array$/, ""))) {
      throw new DOMException("The data must be an integer typed array", "TypeMismatchError");
    }
    if (array.byteLength > 65536) {
      throw new DOMException(`The requested length exceeds 65,536 bytes`, "QuotaExceededError");
    }
    bytesOf(array).set(randomBytes(array.byteLength));
    return array;
  }
  randomUUID() {
    const bytes = randomBytes(16);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    return bytes.toHex().replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  }
}

const subtle = new (tagged("SubtleCrypto", SubtleCrypto))();

/** crypto is the web's crypto object. */
export const crypto = new (tagged("Crypto", Crypto))();

tagged("CryptoKey", CryptoKey);
shownAs(CryptoKey, ({ type, extractable, algorithm, usages }) => ({ type, extractable, algorithm, usages }));
install({ crypto, Crypto, CryptoKey, SubtleCrypto });

// Math.random is replaced with the generator sfc32. The built-in generator's state is part of the
// image, so it would return the same numbers in each VM.
let seeded = false;
let a, b, c, counter;

onCall(() => {
  seeded = false;
});

function seed() {
  [a, b, c] = new Int32Array(randomBytes(16).buffer);
  counter = 1;
  seeded = true;
  for (let i = 0; i < 12; i++) next();
}

function next() {
  const t = (((a + b) | 0) + counter) | 0;
  counter = (counter + 1) | 0;
  a = b ^ (b >>> 9);
  b = (c + (c << 3)) | 0;
  c = (((c << 21) | (c >>> 11)) + t) | 0;
  return t >>> 0;
}

const math = {
  random() {
    if (!seeded) seed();
    return ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992;
  },
};
hide(Math, "random", math.random);
