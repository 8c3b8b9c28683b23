// Generates the API types in src/api/schema. The folder is removed first, so that a failure cannot
// leave stale types behind.
import { rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { createClient } from "@hey-api/openapi-ts";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const folder = at("../src/api/schema");

await rm(folder, { recursive: true, force: true });
await createClient({
  input: at("../../docs/openapi.json"),
  output: folder,
  plugins: ["@hey-api/typescript"],
  logs: { level: "warn", file: false },
});
