// The body of Request and Response, which can be read only once.
import { bytesOf, concat, isBytes, toB64, utf8Decode, utf8Encode } from "./base.js";
import { Blob, BodyStream, FormData, blobBytes, multipart } from "./blob.js";
import { URLSearchParams } from "./searchparams.js";

const empty = new Uint8Array(0);

async function drain(source) {
  const chunks = [];
  for await (const chunk of source) chunks.push(typeof chunk === "string" ? utf8Encode(chunk) : bytesOf(chunk));
  return chunks.length ? concat(chunks) : empty;
}

/** extract converts a body argument to {load, type}. load returns the bytes, or a promise for them. */
export function extract(body) {
  if (body instanceof URLSearchParams) {
    const bytes = utf8Encode(body.toString());
    return { load: () => bytes, type: "application/x-www-form-urlencoded;charset=UTF-8" };
  }
  if (body instanceof FormData) {
    const boundary = "----toolyard" + toB64(crypto.getRandomValues(new Uint8Array(18)), { alphabet: "base64url" });
    const bytes = multipart(body, boundary);
    return { load: () => bytes, type: `multipart/form-data; boundary=${boundary}` };
  }
  if (body instanceof Blob) return { load: () => blobBytes(body), type: body.type || null };
  if (isBytes(body)) {
    const bytes = bytesOf(body).slice();
    return { load: () => bytes, type: null };
  }
  if (typeof body === "object" && typeof body[Symbol.asyncIterator] === "function") {
    if (body.locked) throw new TypeError("Response body object should not be disturbed or locked");
    return { load: () => drain(body), type: null };
  }
  const bytes = utf8Encode(`${body}`);
  return { load: () => bytes, type: "text/plain;charset=UTF-8" };
}

/** Body is the base class of Request and Response. */
export class Body {
  #load = null;
  #stream = null;
  #used = false;

  static fill(self, load) { self.#load = load; }
  /** share lets a clone use the same bytes. */
  static share(from, to) {
    if (from.bodyUsed || from.#stream?.locked) throw new TypeError("Body is unusable: Body has already been read");
    const load = from.#load;
    if (!load) return;
    let loaded;
    from.#load = to.#load = () => (loaded ??= load());
    from.#stream = null;
  }
  /** take reads a body internally. */
  static take(self) { return self.#take(); }
  async #take() {
    if (this.#used || this.#stream?.locked) throw new TypeError("Body is unusable: Body has already been read");
    if (!this.#load) return empty;
    this.#used = true;
    return await this.#load();
  }
  get bodyUsed() { return this.#used; }
  get body() {
    if (!this.#load) return null;
    this.#stream ??= new BodyStream(() => {
      this.#used = true;
      return this.#load();
    });
    return this.#stream;
  }
  async text() { return utf8Decode(await this.#take()).replace(/^\ufeff/, ""); }
  async json() { return JSON.parse(await this.text()); }
  async bytes() { return (await this.#take()).slice(); }
  async arrayBuffer() { return (await this.#take()).slice().buffer; }
  async blob() { return new Blob([await this.#take()], { type: this.headers.get("content-type") ?? "" }); }
  async formData() {
    const type = this.headers.get("content-type") ?? "";
    if (!/^application\/x-www-form-urlencoded\b/i.test(type)) {
      throw new TypeError("formData() supports only application/x-www-form-urlencoded");
    }
    const form = new FormData();
    for (const [name, value] of new URLSearchParams(await this.text())) form.append(name, value);
    return form;
  }
}

/** bodyTools are internal functions for the public classes, hidden from scripts. */
export const bodyTools = { fill: Body.fill, share: Body.share, take: Body.take };
for (const name of Object.keys(bodyTools)) delete Body[name];
