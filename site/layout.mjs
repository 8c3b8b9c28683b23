// The frame around each page.
import { repository } from "./pages.mjs";
import { escape } from "./render.mjs";

// policy lets a page load from its own host only. The search engine is WebAssembly.
const policy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; object-src 'none'; base-uri 'none'; form-action 'none'";

// slim leaves out end tags that HTML does not require. In code, < is escaped; the search needs the line breaks.
const slim = (html) => html.replace(/<\/(li|td|th|tr|thead|tbody)>\n?/g, "\n").replace(/(<(?:tr|thead|tbody|ul|ol)>)\n/g, "$1");

// layout returns a whole document. up leads from the page to the root of the site.
export function layout({ page, html, headings, sections, up, site, neighbors }) {
  const title = page.id === "" ? "Toolyard documentation" : `${page.heading} · Toolyard`;
  const current = page.parent ?? page.id;
  const section = sections.find((s) => s.pages.some((p) => p.id === current));
  const link = (p) => `<li><a href="${up}${p.id}"${p.id === page.id ? ' aria-current="page"' : ""}>${escape(p.title)}</a></li>`;
  return slim(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width">
<title>${escape(title)}</title>
<meta name="description" content="${escape(page.summary || page.heading)}">
<link rel="canonical" href="${site}${page.id}">
<link rel="icon" href="${up}icon.svg">
<link rel="stylesheet" href="${up}site.css">
<script src="${up}theme.js"></script>
<script type="module" src="${up}site.js"></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header>
<a class="brand" href="${up}"><img src="${up}icon.svg" alt="" width="24" height="24">Toolyard</a>
<button id="search" hidden><span>Search</span><kbd>/</kbd></button>
<a href="${repository}">GitHub</a>
<button id="theme" hidden>Theme: auto</button>
</header>
<dialog id="finder" aria-label="Search the documentation"><input type="search" aria-label="Search" placeholder="Search the documentation" autocomplete="off" spellcheck="false"><p id="count" role="status"></p><ol id="results"></ol></dialog>
<div class="columns">
<nav id="pages" aria-label="Pages"><details open><summary>Menu</summary>
${sections.map((s) => `<h2>${escape(s.name)}</h2>\n<ul>\n${s.pages.map(link).join("\n")}\n</ul>`).join("\n")}
</details></nav>
<main id="content" data-pagefind-body>
${section ? `<p class="section" data-pagefind-ignore>${escape(section.name)}</p>\n` : ""}<h1>${escape(page.heading)}</h1>
${html}<footer data-pagefind-ignore>
${page.generated ? "" : `<a href="${repository}/edit/main/docs/${page.file}">Edit this page</a>`}
${neighbors.map((p, i) => (p ? `<a class="${["previous", "next"][i]}" href="${up}${p.id}">${escape(p.title)}</a>` : "")).join("\n")}
</footer>
</main>
${headings.length > 1 ? `<nav id="outline" aria-label="On this page"><h2>On this page</h2>\n<ul>\n${headings.map((h) => `<li><a href="#${h.id}">${escape(h.text)}</a></li>`).join("\n")}\n</ul></nav>` : ""}
</div>
</body>
</html>
`);
}
