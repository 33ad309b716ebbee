/**
 * Runs the guide and real MCP clients with the packed command. The exit code is the verdict. Arguments choose: `guide`, and
 * the names of clients.
 */
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkClient } from "./client-check.ts";
import { checkGuide } from "./guide-check.ts";
import { installPackedCommand, NotTriedError } from "./packed-command.ts";
import { realClients } from "./real-clients.ts";

const names = process.argv.slice(2);
const unknown = names.find((name) => name !== "guide" && realClients.every((client) => client.name !== name));
const isChosen = (name: string) => names.length === 0 || names.includes(name);
const problems: string[] = [];

if (unknown !== undefined) problems.push(`${unknown} is neither guide nor a client of clients/real-clients.ts`);
else console.log(formatRow("", "", await tryCheck("qm", runChecks)));
for (const problem of problems) console.log(`\n${problem}`);
process.exitCode = problems.length === 0 ? 0 : 1;

async function runChecks(): Promise<readonly string[]> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "qm-clients-")));
  // Also after Ctrl-C: the children stop and the folder goes when this process exits.
  process.once("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130));
  const qmBin = await installPackedCommand(join(folder, "qm"));
  if (isChosen("guide")) await runGuide(folder, qmBin);
  const chosen = realClients.filter(({ name }) => isChosen(name));
  if (chosen.length > 0) console.log(`\n${formatRow("client", "version", ["stdio", "http", "undone", "task"])}`);
  for (const client of chosen) {
    const { name, version } = client;
    const cells = await tryCheck(name, async () => {
      const row = await checkClient(client, join(folder, name), qmBin);
      for (const [step, cell] of Object.entries(row)) if (cell !== "yes") problems.push(`${name}, ${step}: ${cell}`);
      return [row.stdio, row.http, row.undone, row.task].map((cell) => (cell === "yes" ? cell : "FAIL"));
    });
    console.log(formatRow(name, version, cells));
  }
  return [];
}

async function runGuide(folder: string, qmBin: string): Promise<void> {
  const report = (what: string, problem?: string) => {
    console.log(`${problem === undefined ? "yes " : "FAIL"}  ${what}`);
    if (problem !== undefined) problems.push(`guide, ${what}: ${problem}`);
  };
  const cells = await tryCheck("guide", async () => {
    await checkGuide(join(folder, "guide"), qmBin, report);
    return [];
  });
  if (cells.length > 0) console.log(formatRow("guide", "", cells));
}

/** The cells of a row. A check that cannot be tried here is no failure. */
async function tryCheck(name: string, check: () => Promise<readonly string[]>): Promise<readonly string[]> {
  try {
    return await check();
  } catch (thrown) {
    const reason = thrown instanceof Error ? thrown.message : String(thrown);
    if (thrown instanceof NotTriedError) return [`not tried: ${reason}`];
    problems.push(`${name}: ${reason}`);
    return ["FAIL"];
  }
}

function formatRow(client: string, version: string, cells: readonly string[]): string {
  return [client.padEnd(11), version.padEnd(9), ...cells.map((cell) => cell.padEnd(9))].join("  ").trimEnd();
}
