/**
 * Runs the MCP conformance suite on both faces: the gateway, with the fixture server behind it and every name passed
 * through, and the client that the hub is made of. The exit code is the verdict. Nothing is installed and nothing is
 * fetched: `npm ci` in this folder does that.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStand } from "./stand.ts";
import { type Leg, runSuite } from "./suite.ts";

const REVISIONS = ["2026-07-28", "2025-11-25"] as const;
const client = join(import.meta.dirname, "client.ts");
const results = mkdtempSync(join(tmpdir(), "qm-conformance-"));
const legs: Leg[] = [];
try {
  for (const revision of REVISIONS) {
    // Each on a stand of its own: the suite leaves calls behind that wait for an answer.
    const stand = await openStand();
    try {
      legs.push(await runSuite({ face: "server", revision, target: ["--url", stand.url], results }));
    } finally {
      await stand.close();
    }
  }
  if (existsSync(client)) {
    const tsx = join(import.meta.dirname, "../node_modules/tsx/dist/cli.mjs");
    const command = `${process.execPath} ${tsx} ${client}`;
    for (const revision of REVISIONS) {
      legs.push(await runSuite({ face: "client", revision, target: ["--command", command], results }));
    }
  }
} finally {
  rmSync(results, { recursive: true, force: true });
}

console.log("\nface    revision    scenarios  passed  verdict");
for (const { face, revision, scenarios, passed, ok } of legs) {
  const cells = [face.padEnd(6), revision, String(scenarios).padStart(9), String(passed).padStart(6)];
  console.log(`${cells.join("  ")}  ${ok ? "pass" : "FAIL"}`);
}
for (const { face, revision, failed, problem } of legs) {
  for (const scenario of failed) console.log(`failed: ${face} ${revision} ${scenario}`);
  if (problem !== undefined) console.log(`${face} ${revision}: ${problem}`);
}
process.exitCode = legs.length > 0 && legs.every(({ ok }) => ok) ? 0 : 1;
