// Writes the types of the API to src/api/schema. What was there is removed first: should the
// document not be readable, nothing compiles with the types of another one.
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
