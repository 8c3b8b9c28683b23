// Fails if the first load exceeds its budget: index.html, its script and style sheet, the chunks they
// import, and the overview. Fonts are listed but not counted, since browsers cache them separately.
import { readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const budget = 150 * 1024;
const built = new URL("../../internal/serve/console/built/", import.meta.url);
const manifest = JSON.parse(await readFile(new URL("manifest.json", built), "utf8"));

const files = new Set(["index.html"]);
const seen = new Set();
function add(key) {
  const entry = manifest[key];
  if (!entry) throw new Error(`The build has no ${key}; run npm run build.`);
  if (seen.has(key)) return;
  seen.add(key);
  files.add(entry.file);
  for (const css of entry.css ?? []) files.add(css);
  for (const next of entry.imports ?? []) add(next);
}
add("index.html");
add("src/screens/Overview.tsx");

let total = 0;
for (const file of files) {
  const size = gzipSync(await readFile(new URL(file, built)), { level: 9 }).length;
  total += size;
  console.log(`${String(size).padStart(8)}  ${file}`);
}
console.log(`${String(total).padStart(8)}  first load (gzip), budget ${budget}`);
const fonts = Object.values(manifest).map(({ file }) => file).filter((file) => file.endsWith("latin-wght-normal.woff2") || /-latin-wght-normal-[^/]*\.woff2$/.test(file));
for (const file of fonts) console.log(`${String((await readFile(new URL(file, built))).length).padStart(8)}  ${file}, font, not counted`);
if (total > budget) {
  console.error("The first load exceeds its budget.");
  process.exit(1);
}
