import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The console is embedded in the binary and served under /console. Its Content Security Policy
// forbids inline scripts and styles, so nothing is inlined and there is no preload polyfill. Small
// modules that nearly every screen needs are grouped into a few files.
const groups = [
  { name: "icons", test: /node_modules\/lucide-react/ },
  { name: "parts", test: /src\/(components\/((Badge|Button|Card|Code|Page|States|Time)\.|charts\/)|format\/)/ },
];

export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    outDir: "../internal/serve/console/built",
    emptyOutDir: false, // its README is tracked; scripts/clean.mjs removes old files
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: ["chrome123", "firefox121", "safari17.5"],
    manifest: "manifest.json",
    reportCompressedSize: false,
    rolldownOptions: { output: { codeSplitting: { groups } } },
  },
  server: {
    port: 5173,
    proxy: { "/api": process.env.TOOLYARD_API ?? "http://127.0.0.1:3001" },
  },
  test: { include: ["src/**/*.test.ts"], environment: "node", css: true },
});
