// Removes files of earlier builds: those that are not in the manifest. It runs after the build, so
// that a failed build keeps the previous one.
import { readdir, readFile, rm } from "node:fs/promises";

const built = new URL("../../internal/serve/console/built/", import.meta.url);
const manifest = JSON.parse(await readFile(new URL("manifest.json", built), "utf8"));
const keep = new Set(Object.values(manifest).flatMap((chunk) => [chunk.file, ...(chunk.css ?? []), ...(chunk.assets ?? [])]));

for (const name of await readdir(new URL("assets/", built))) {
  if (!keep.has(`assets/${name}`)) await rm(new URL(`assets/${name}`, built));
}
