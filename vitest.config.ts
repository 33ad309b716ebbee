import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

const limits = { testTimeout: 60_000, hookTimeout: 60_000 };
const conformance = "test/conformance.test.ts";

/**
 * Folders whose tests share a worker. None of them opens a quartermaster or a hub: each of those has an
 * AsyncLocalStorage, and every one that a process has used slows down all later promises in it.
 */
const sharedFolders = [
  "activation",
  "approval",
  "catalog",
  "config",
  "core",
  "distribution",
  "files",
  "http",
  "infospace/operations",
  "infospace/primitives",
  "infospace/search",
  "invoke",
  "ledger",
  "mcp/clients",
  "mcp/manifest",
  "mcp/provider",
  "mcp/registry",
  "policy",
  "providers",
  "registry",
  "search",
  "store",
  "turn",
].map((folder) => `src/${folder}`);

/** A file that replaces a module needs a worker in which that module is not yet loaded. */
const replacesModule = (file: string) => /\bvi\.(?:mock|doMock)\(/.test(readFileSync(file, "utf8"));

const shared = sharedFolders.flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".test.ts"))
    .map((path) => join(folder, path))
    .filter((file) => !replacesModule(file)),
);

export default defineConfig({
  test: {
    globalSetup: "test/support/compile.ts",
    // The default leaves one core to vitest, which hardly uses it, and many tests wait for other processes.
    maxWorkers: availableParallelism(),
    projects: [
      {
        test: { name: "shared", include: shared, isolate: false, sequence: { groupOrder: 0 }, ...limits },
      },
      {
        test: {
          name: "isolated",
          include: ["src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: [conformance, ...shared],
          sequence: { groupOrder: 0 },
          ...limits,
        },
      },
      {
        // Its client scenarios all run at once and take the whole machine: nothing else runs beside it.
        test: { name: "conformance", include: [conformance], sequence: { groupOrder: 1 }, ...limits },
      },
    ],
  },
});
