export type Part = { text: string; match: boolean };

const maxWords = 12;

/** A query's words, longest first, so that a word takes precedence over its own prefix. */
export function wordsOf(query: string): string[] {
  const words = query.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter((word) => word !== "");
  return [...new Set(words)].sort((a, b) => b.length - a.length).slice(0, maxWords);
}

/**
 * Splits a text into matching and other parts. A one-letter word matches only at the start of a
 * name part; otherwise half of the text would be highlighted.
 */
export function highlight(text: string, words: string[]): Part[] {
  const lower = text.toLowerCase();
  if (words.length === 0 || lower.length !== text.length) return [{ text, match: false }];
  const parts: Part[] = [];
  let plainFrom = 0;
  for (let at = 0; at < text.length; ) {
    const word = words.find((each) => lower.startsWith(each, at) && (each.length > 1 || startsNamePart(lower, at)));
    if (!word) {
      at++;
      continue;
    }
    if (at > plainFrom) parts.push({ text: text.slice(plainFrom, at), match: false });
    parts.push({ text: text.slice(at, at + word.length), match: true });
    at += word.length;
    plainFrom = at;
  }
  if (plainFrom < text.length) parts.push({ text: text.slice(plainFrom), match: false });
  return parts;
}

function startsNamePart(lower: string, at: number): boolean {
  return at === 0 || !/[\p{L}\p{N}]/u.test(lower[at - 1] ?? "");
}
