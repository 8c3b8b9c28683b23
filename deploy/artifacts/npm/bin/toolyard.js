#!/usr/bin/env node
// Starts the toolyard program in the platform package that npm installed next to this one.
"use strict";
const { spawn } = require("node:child_process");

const platform = `${process.platform}-${process.arch}`;
const program = process.platform === "win32" ? "toolyard.exe" : "toolyard";

let path;
try {
  path = require.resolve(`@toolyard/${platform}/bin/${program}`);
} catch {
  const supported = Object.keys(require("../package.json").optionalDependencies).map((name) => name.replace("@toolyard/", ""));
  console.error(
    supported.includes(platform)
      ? `error: the package @toolyard/${platform} is not installed. Install toolyard again, without --omit=optional or --no-optional.`
      : `error: toolyard has no npm package for ${platform}, only for ${supported.join(", ")}. See https://github.com/toolyard/toolyard for other ways to install it.`,
  );
  process.exit(1);
}

const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (err) => {
  console.error(`error: cannot start ${path}: ${err.message}`);
  process.exit(1);
});

// A terminal sends SIGINT to both processes. A second signal would end the program before it can
// shut down gracefully.
process.on("SIGINT", () => {
  if (!process.stdin.isTTY) child.kill("SIGINT");
});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));

child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
