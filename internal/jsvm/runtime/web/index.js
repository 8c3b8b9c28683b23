// The web APIs, installed on globalThis.
import "./misc.js";
import "./encoding.js";
import "./console.js";
import "./timers.js";
import "./url.js";
import "./event.js";
import "./headers.js";
import "./blob.js";
import "./crypto.js";
import "./fetch.js";
import "./clone.js";
