// The pages of ../docs: their order, their addresses on the site, and the links between them.
import { existsSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));
export const docs = path.join(root, "docs");
export const repository = "https://github.com/toolyard/toolyard";

const read = (file) => readFileSync(path.join(docs, file), "utf8");

// sections returns the headings of docs/README.md with the pages that are listed below them.
// That page is the start page, the navigation and llms.txt in one. A heading without pages, such as
// a list of links to parts of pages, is only on the start page.
export function sections() {
  const found = [];
  for (const line of read("README.md").split("\n")) {
    const heading = /^## (.+)$/.exec(line);
    const item = /^- \[(.+?)\]\((\S+?\.md)\): (.+)$/.exec(line);
    if (heading) found.push({ name: heading[1], pages: [] });
    else if (item) found.at(-1).pages.push(page(item[2], item[1], item[3]));
  }
  return found.filter((section) => section.pages.length > 0);
}

// pages returns all pages, the start page first. A page that is not listed in docs/README.md itself
// must be listed in the README.md of its folder, such as clients/README.md.
export function pages() {
  const start = page("README.md", "Toolyard documentation", "An MCP gateway and tool platform in one Go binary");
  const listed = sections().flatMap((section) => section.pages);
  return distinct([start, ...listed.flatMap((p) => [p, ...below(p)])]);
}

// distinct returns the pages, or throws if one would replace another, such as IDENTITY.md and identity/README.md.
export function distinct(pages) {
  const files = new Map();
  for (const { id, file } of pages) {
    if (files.has(id)) throw new Error(`docs/${files.get(id)} and docs/${file} have the same address ${id}: rename one of them`);
    files.set(id, file);
  }
  return pages;
}

function below(index) {
  if (path.basename(index.file) !== "README.md") return [];
  const links = index.markdown.matchAll(/\[([^\]]+)\]\(([\w-]+\.md)\)/g);
  return [...links].map(([, title, file]) => ({ ...page(path.join(path.dirname(index.file), file), title, ""), parent: index.id }));
}

function page(file, title, summary) {
  const [, heading, generated, markdown] = /^# (.+)\n+(Generated [^\n]*\n+)?([\s\S]*)$/.exec(read(file));
  return { file, id: address(file), title, summary, heading, markdown, generated: generated !== undefined };
}

// address returns the address of a page below the site's: GUIDE.md is guide/, clients/README.md is clients/.
export function address(file) {
  const name = file.replace(/(^|\/)README\.md$/, "").replace(/\.md$/, "");
  return name === "" ? "" : `${name.replaceAll("_", "-").toLowerCase()}/`;
}

// resolve returns where a link of a page leads on the site: pages to pages, other files of docs to
// their copies, and all other files of the repository to GitHub.
export function resolve(link, from) {
  if (/^([a-z][a-z0-9+.-]*:|#)/.test(link)) return link;
  const [target, fragment] = link.split("#");
  const full = path.resolve(docs, path.dirname(from), decodeURI(target));
  if (!existsSync(full)) throw new Error(`docs/${from} links to ${link}, which does not exist`);
  const anchor = fragment === undefined ? "" : `#${fragment}`;
  const file = path.relative(docs, full);
  if (file.startsWith("..") || statSync(full).isDirectory()) {
    return `${repository}/${statSync(full).isDirectory() ? "tree" : "blob"}/main/${path.relative(root, full)}${anchor}`;
  }
  const up = "../".repeat(address(from).split("/").length - 1) || "./";
  return up + (file.endsWith(".md") ? address(file) : file) + anchor;
}
