// Parses a small, safe subset of Markdown into data, never into HTML. Links are limited to http and
// https, images are never loaded, and all sizes are limited.

export type Inline = { kind: "text" | "code" | "strong" | "em"; text: string } | { kind: "link"; text: string; url: string; host: string } | { kind: "image"; text: string; host: string };

export type MarkdownBlock =
  | { kind: "heading"; level: number; inline: Inline[] }
  | { kind: "text" | "quote"; inline: Inline[] }
  | { kind: "code"; text: string }
  | { kind: "list"; ordered: boolean; start: number; items: Inline[][] }
  | { kind: "table"; head: Inline[][]; rows: Inline[][][] }
  | { kind: "rule" };

const maxLength = 100_000; // number of characters parsed as Markdown
const maxBlocks = 500;
const maxRows = 200;

/** Reports whether a text looks like Markdown: a heading, list, fence, link, table or emphasis. */
export function isMarkdown(text: string): boolean {
  return text.length <= maxLength && /^#{1,6} \S|^```|^\s*([-*+]|\d{1,9}[.)]) \S|\[[^\]\n]+\]\(https?:|\*\*[^*\n]+\*\*|^\|.+\|\s*$/m.test(text);
}

/** Parses the blocks of a text. */
export function markdown(text: string): MarkdownBlock[] {
  const lines = text.slice(0, maxLength).split(/\r?\n/);
  const blocks: MarkdownBlock[] = [];
  for (let i = 0; i < lines.length && blocks.length < maxBlocks; ) {
    const taken = fence(lines, i) ?? heading(lines, i) ?? rule(lines, i) ?? table(lines, i) ?? list(lines, i) ?? quote(lines, i) ?? paragraph(lines, i);
    if (taken.block) blocks.push(taken.block);
    i = Math.max(i + 1, taken.next);
  }
  return blocks;
}

type Taken = { block?: MarkdownBlock; next: number };

function fence(lines: string[], at: number): Taken | undefined {
  if (!/^```/.test(lines[at] ?? "")) return undefined;
  const end = lines.findIndex((line, i) => i > at && /^```\s*$/.test(line));
  const last = end < 0 ? lines.length : end;
  return { block: { kind: "code", text: lines.slice(at + 1, last).join("\n") }, next: last + 1 };
}

function heading(lines: string[], at: number): Taken | undefined {
  const [, marks, words] = /^(#{1,6}) +(.*?)(?: +#+)?\s*$/.exec(lines[at] ?? "") ?? [];
  return marks && words !== undefined ? { block: { kind: "heading", level: marks.length, inline: inline(words) }, next: at + 1 } : undefined;
}

function rule(lines: string[], at: number): Taken | undefined {
  return /^ {0,3}([-*_])( *\1){2,} *$/.test(lines[at] ?? "") ? { block: { kind: "rule" }, next: at + 1 } : undefined;
}

const cells = (line: string) => line.trim().replace(/^\||\|$/g, "").split("|").slice(0, 30).map((cell) => inline(cell.trim()));

function table(lines: string[], at: number): Taken | undefined {
  if (!/^\s*\|.*\|\s*$/.test(lines[at] ?? "") || !/^\s*\|?[\s:|-]*-[\s:|-]*$/.test(lines[at + 1] ?? "")) return undefined;
  let next = at + 2;
  while (next < lines.length && /^\s*\|.*\|\s*$/.test(lines[next] ?? "")) next++;
  return { block: { kind: "table", head: cells(lines[at] ?? ""), rows: lines.slice(at + 2, Math.min(next, at + 2 + maxRows)).map(cells) }, next };
}

const item = /^\s*(?:([-*+])|(\d{1,9})[.)]) +(.*)$/;

function list(lines: string[], at: number): Taken | undefined {
  const first = item.exec(lines[at] ?? "");
  if (!first) return undefined;
  const items: string[] = [];
  let next = at;
  for (; next < lines.length && items.length < maxRows; next++) {
    const found = item.exec(lines[next] ?? "");
    if (found) items.push(found[3] ?? "");
    else if (/^\s+\S/.test(lines[next] ?? "")) items[items.length - 1] += ` ${lines[next]?.trim()}`;
    else break;
  }
  return { block: { kind: "list", ordered: first[2] !== undefined, start: Number(first[2] ?? 1), items: items.map(inline) }, next };
}

function quote(lines: string[], at: number): Taken | undefined {
  let next = at;
  while (next < lines.length && /^>/.test(lines[next] ?? "")) next++;
  return next === at ? undefined : { block: { kind: "quote", inline: inline(lines.slice(at, next).map((line) => line.replace(/^> ?/, "")).join("\n")) }, next };
}

function paragraph(lines: string[], at: number): Taken {
  let next = at;
  while (next < lines.length && (lines[next] ?? "").trim() !== "" && !(next > at && /^(#{1,6} |```|>|\s*([-*+]|\d+[.)]) )/.test(lines[next] ?? ""))) next++;
  const text = lines.slice(at, next).join("\n").trim();
  return text === "" ? { next: at + 1 } : { block: { kind: "text", inline: inline(text) }, next };
}

// The alternatives do not overlap.
const marks = /`([^`\n]+)`|!\[([^\]\n]{0,300})\]\(([^)\s]{1,2000})[^)\n]{0,200}\)|\[([^\]\n]{1,300})\]\(([^)\s]{1,2000})[^)\n]{0,200}\)|\*\*([^*\n]{1,1000})\*\*|(?<![\w*])[*_]([^*_\n]{1,1000})[*_](?![\w*])|(https?:\/\/[^\s<>"'`)\]]{1,2000})/g;

export function inline(text: string): Inline[] {
  const parts: Inline[] = [];
  let from = 0;
  for (const found of text.matchAll(marks)) {
    if (found.index > from) parts.push({ kind: "text", text: text.slice(from, found.index) });
    parts.push(part(found));
    from = found.index + found[0].length;
  }
  if (from < text.length) parts.push({ kind: "text", text: text.slice(from) });
  return parts;
}

function part([whole, code, alt, image, label, url, strong, em, bare]: RegExpMatchArray): Inline {
  if (code !== undefined) return { kind: "code", text: code };
  if (image !== undefined) return { kind: "image", text: alt ?? "", host: page(image)?.host ?? "no web address" };
  if (strong !== undefined) return { kind: "strong", text: strong };
  if (em !== undefined) return { kind: "em", text: em };
  const target = page(url ?? bare ?? "");
  return target ? { kind: "link", text: label ?? bare ?? "", url: target.href, host: target.host } : { kind: "text", text: whole };
}

/** Parses a URL; undefined unless it is http or https. */
function page(url: string): URL | undefined {
  if (!URL.canParse(url)) return undefined;
  const parsed = new URL(url);
  return /^https?:$/.test(parsed.protocol) && parsed.username === "" && parsed.password === "" ? parsed : undefined;
}
