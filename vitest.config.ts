import { defineConfig } from "vitest/config";

const limits = { testTimeout: 60_000, hookTimeout: 60_000 };
const conformance = "test/conformance.test.ts";

export default defineConfig({
  test: {
    globalSetup: "test/support/compile.ts",
    projects: [
      {
        test: {
          name: "all",
          include: ["src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: [conformance],
          typecheck: { enabled: true, include: ["src/**/*.test-d.ts"], tsconfig: "./tsconfig.json" },
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
