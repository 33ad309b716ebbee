/** Runs the MCP conformance suite against gateway and hub. The exit code is the verdict. Installs and downloads nothing. */
import { FACES, REVISIONS, runLeg } from "./legs.ts";
import type { Leg } from "./suite.ts";

const legs: Leg[] = [];
for (const face of FACES) for (const revision of REVISIONS) legs.push(await runLeg(face, revision));

console.log("\nface    revision    scenarios  passed  verdict");
for (const { face, revision, scenarios, passed, ok } of legs) {
  const cells = [face.padEnd(6), revision, String(scenarios).padStart(9), String(passed).padStart(6)];
  console.log(`${cells.join("  ")}  ${ok ? "pass" : "FAIL"}`);
}
for (const { face, revision, failed, problem } of legs) {
  for (const scenario of failed) console.log(`failed: ${face} ${revision} ${scenario}`);
  if (problem !== undefined) console.log(`${face} ${revision}: ${problem}`);
}
process.exitCode = legs.every(({ ok }) => ok) ? 0 : 1;
