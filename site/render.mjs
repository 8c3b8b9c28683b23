// Markdown to HTML: heading anchors as on GitHub, links and pictures of the site, highlighted code.
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import json from "highlight.js/lib/languages/json";
import typescript from "highlight.js/lib/languages/typescript";
import yaml from "highlight.js/lib/languages/yaml";
import MarkdownIt from "markdown-it";
import { resolve } from "./pages.mjs";

for (const [name, language] of Object.entries({ bash, dockerfile, go, json, typescript, yaml, toml: ini })) hljs.registerLanguage(name, language);
hljs.registerAliases("sh", { languageName: "bash" });
hljs.registerAliases("ts", { languageName: "typescript" });

const markdown = new MarkdownIt({ html: true });
export const escape = (text) => markdown.utils.escapeHtml(text);

// render returns a page as HTML, with its headings of the second level.
export function render(page) {
  const headings = [];
  const html = markdown.render(page.markdown, { page, headings, slugs: new Map() });
  return { html, headings: headings.filter((h) => h.level === 2) };
}

// slug returns the anchor that GitHub gives to a heading.
export const slug = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}\p{M} _-]/gu, "").replaceAll(" ", "-");

markdown.core.ruler.push("site", (state) => {
  const { page, headings, slugs } = state.env;
  state.tokens.forEach((token, i) => {
    if (token.type === "heading_open") {
      const content = state.tokens[i + 1];
      const text = content.children.filter((t) => ["text", "code_inline"].includes(t.type)).map((t) => t.content).join("");
      const base = slug(text);
      const repeated = slugs.get(base) ?? 0;
      slugs.set(base, repeated + 1);
      const id = repeated === 0 ? base : `${base}-${repeated}`;
      token.attrSet("id", id);
      headings.push({ level: Number(token.tag.slice(1)), text, id });
    }
    for (const child of token.children ?? []) {
      if (child.type === "link_open") child.attrSet("href", resolve(child.attrGet("href"), page.file));
      if (child.type === "image") child.attrSet("src", resolve(child.attrGet("src"), page.file));
    }
  });
});

// GitHub hides comments, and the site leaves them out.
markdown.renderer.rules.html_block = (tokens, i) => tokens[i].content.replace(/<!--[\s\S]*?-->\n?/g, "");

// Tables and code that are wider than the page scroll on their own, also by keyboard.
markdown.renderer.rules.table_open = () => '<div class="wide" tabindex="0" role="group" aria-label="Table"><table>\n';
markdown.renderer.rules.table_close = () => "</table></div>\n";
markdown.renderer.rules.fence = (tokens, i) => {
  const { info, content } = tokens[i];
  return `<pre tabindex="0"><code>${slim(highlight(content, info.trim()))}</code></pre>\n`;
};

// slim leaves out what highlighted code does not need: classes without a style, second classes, and quotes.
const slim = (html) => html
  .replace(/<span class="(?:punctuation|bullet|operator)">([^<]*)<\/span>/g, "$1")
  .replace(/<span class="(\w+)[^"]*">/g, "<span class=$1>")
  .replaceAll("&quot;", '"').replaceAll("&#x27;", "'");

function highlight(text, language) {
  if (language === "console") return text.replace(/\n$/, "").split("\n").map(consoleLine).join("\n");
  return hljs.getLanguage(language) ? hljs.highlight(text, { language }).value.replaceAll("hljs-", "") : escape(text);
}

function consoleLine(line) {
  return line.startsWith("$ ") ? `<b>$ </b><strong>${escape(line.slice(2))}</strong>` : escape(line);
}

// A picture that has a dark version follows the theme.
markdown.renderer.rules.image = (tokens, i) => {
  const source = tokens[i].attrGet("src");
  const image = (address, theme) => `<img${theme} loading="lazy" src="${escape(address)}" alt="${escape(tokens[i].content)}">`;
  if (!source.endsWith("-light.png")) return image(source, "");
  return image(source, ' class="light"') + image(source.replace("-light.png", "-dark.png"), ' class="dark"');
};
