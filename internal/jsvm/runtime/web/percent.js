// Percent-encoding as defined by the URL standard.
import { latin1Decode, latin1Encode, utf8Decode, utf8Encode } from "./base.js";

const { encodeURIComponent, decodeURIComponent } = globalThis;

/** sets are the percent-encode sets for the parts of a URL. */
export const sets = {
  control: /[\x00-\x1f\x7f-\u{10ffff}]+/gu,
  fragment: /[\x00-\x20"<>`\x7f-\u{10ffff}]+/gu,
  query: /[\x00-\x20"#<>\x7f-\u{10ffff}]+/gu,
  specialQuery: /[\x00-\x20"#<>'\x7f-\u{10ffff}]+/gu,
  path: /[\x00-\x20"#<>?^`{}\x7f-\u{10ffff}]+/gu,
  userinfo: /[\x00-\x20"#<>?`{}/:;=@[\\\]^|\x7f-\u{10ffff}]+/gu,
  form: /[\x00-\x1f"#<>?`{}/:;=@[\\\]^|$%&+,!'()~\x7f-\u{10ffff}]+/gu,
};

function escapeRun(run) {
  return encodeURIComponent(run).replace(/[!'()~]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());
}

/** percentEncode encodes the characters in a set. The text must be well formed. */
export function percentEncode(text, set) {
  return text.replace(set, escapeRun);
}

/** percentDecode decodes UTF-8; invalid bytes become U+FFFD. */
export function percentDecode(text) {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    const raw = latin1Decode(utf8Encode(text));
    const byte = (_, hex) => String.fromCharCode(parseInt(hex, 16));
    return utf8Decode(latin1Encode(raw.replace(/%([0-9a-f]{2})/gi, byte)));
  }
}
