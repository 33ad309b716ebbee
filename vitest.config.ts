import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

const limits = { testTimeout: 60_000, hookTimeout: 60_000, expect: { poll: { timeout: 30_000 } } };
const conformance = "test/conformance.test.ts";

/** Files that replace a module. They need a worker in which that module is not loaded yet. */
const isolated = ["src", "test"].flatMap((folder) =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".test.ts"))
    .map((path) => join(folder, path))
    .filter((path) => /\bvi\.(?:mock|doMock)\(/.test(readFileSync(path, "utf8"))),
);

// The *.test-d.ts files are checked by tsc, which `npm test` runs before this.
export default defineConfig({
  test: {
    globalSetup: "test/support/compile.ts",
    // Our tests often wait for other processes. One more worker than cores uses that time.
    maxWorkers: availableParallelism() + 1,
    projects: [
      {
        // To start a worker and to load the library takes longer than most files do, so they share workers.
        test: {
          name: "shared",
          include: ["src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: [conformance, ...isolated],
          isolate: false,
          setupFiles: "test/support/release-storages.ts",
          sequence: { groupOrder: 0 },
          ...limits,
        },
      },
      {
        test: { name: "isolated", include: isolated, sequence: { groupOrder: 0 }, ...limits },
      },
      {
        // Its client scenarios all run at once and take the whole machine: nothing else runs beside it.
        test: { name: "conformance", include: [conformance], sequence: { groupOrder: 1 }, ...limits },
      },
    ],
  },
});
