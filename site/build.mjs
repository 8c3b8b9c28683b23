// Builds the documentation site in dist from ../docs.
//
// SITE_URL is the address at which it is published; links between pages are relative, so the site
// works at any address.
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { close, createIndex } from "pagefind";
import { layout } from "./layout.mjs";
import { docs, pages, repository, sections } from "./pages.mjs";
import { render } from "./render.mjs";

const site = process.env.SITE_URL ?? "https://toolyard.github.io/toolyard/";
const here = fileURLToPath(new URL(".", import.meta.url));
const dist = path.join(here, "dist");

function write(file, text) {
  mkdirSync(path.dirname(path.join(dist, file)), { recursive: true });
  writeFileSync(path.join(dist, file), text);
}

function writePages(all) {
  const navigation = sections();
  const listed = all.filter((page) => !page.parent);
  for (const page of all) {
    const { html, headings } = render(page);
    const i = listed.indexOf(page);
    const neighbors = i < 0 ? [] : [listed[i - 1], listed[i + 1]];
    const up = "../".repeat(page.id.split("/").length - 1) || "./";
    write(`${page.id}index.html`, layout({ page, html, headings, sections: navigation, up, site, neighbors }));
    copyFiles(html, page.id);
  }
  const missing = { id: "404.html", file: "README.md", heading: "Page not found", generated: true, summary: "" };
  const html = '<p>There is no such page. Use the search, or start at the <a href="' + site + '">first page</a>.</p>\n';
  write("404.html", layout({ page: missing, html, headings: [], sections: navigation, up: new URL(site).pathname, site, neighbors: [] }));
}

// copyFiles copies the pictures and schemas of docs that a page shows or links to.
function copyFiles(html, id) {
  for (const [, link] of html.matchAll(/(?:src|href)="(\.[^"#]+\.(?:png|svg|json))"/g)) {
    const file = path.join(id, link);
    cpSync(path.join(docs, file), path.join(dist, file));
  }
}

// writeTexts writes llms.txt, a list of the pages, and llms-full.txt, all pages, for language models.
function writeTexts(all) {
  const intro = "# Toolyard\n\n> An MCP gateway and tool platform in one Go binary.\n";
  const list = sections().map(({ name, pages }) => {
    const items = pages.map((p) => `- [${p.title}](${repository.replace("github.com", "raw.githubusercontent.com")}/main/docs/${p.file}): ${p.summary}`);
    return `\n## ${name}\n\n${items.join("\n")}\n`;
  });
  write("llms.txt", `${intro}\nAll pages in one file: ${site}llms-full.txt\n${list.join("")}`);
  write("llms-full.txt", all.slice(1).map((p) => `# ${p.heading}\n\nSource: ${site}${p.id}\n\n${p.markdown}`).join("\n"));
  write("sitemap.xml", `<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n${all.map((p) => `<url><loc>${site}${p.id}</loc></url>`).join("\n")}\n</urlset>\n`);
}

function copyFonts() {
  for (const font of ["inter", "jetbrains-mono"]) {
    const from = path.join(here, "node_modules/@fontsource-variable", font);
    cpSync(path.join(from, `files/${font}-latin-wght-normal.woff2`), path.join(dist, `fonts/${font}.woff2`));
    cpSync(path.join(from, "LICENSE"), path.join(dist, `fonts/${font}.txt`));
  }
}

async function writeIndex() {
  const { index, errors } = await createIndex();
  const result = await index.addDirectory({ path: dist });
  const output = await index.writeFiles({ outputPath: path.join(dist, "pagefind") });
  const failed = [...errors, ...result.errors, ...output.errors];
  if (failed.length > 0) throw new Error(failed.join("\n"));
  for (const file of ["pagefind-ui.js", "pagefind-ui.css", "pagefind-modular-ui.js", "pagefind-modular-ui.css", "pagefind-highlight.js", "pagefind-component-ui.js", "pagefind-component-ui.css"]) {
    rmSync(path.join(dist, "pagefind", file), { force: true }); // site.js has its own
  }
  await close();
}

rmSync(dist, { recursive: true, force: true });
mkdirSync(dist);
cpSync(path.join(here, "assets"), dist, { recursive: true });
cpSync(path.join(here, "../console/public/icon.svg"), path.join(dist, "icon.svg"));
const all = pages();
copyFonts();
writePages(all);
writeTexts(all);
await writeIndex();
console.log(`${all.length} pages in ${path.relative(process.cwd(), dist) || "."}`);
