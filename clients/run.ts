/** Runs real MCP clients with the packed command. The exit code is the verdict. Arguments name the clients to run. */
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkClient } from "./client-check.ts";
import { installPackedCommand, NotTriedError } from "./packed-command.ts";
import { realClients } from "./real-clients.ts";

const names = process.argv.slice(2);
const chosen = realClients.filter(({ name }) => names.length === 0 || names.includes(name));
const folder = await realpath(await mkdtemp(join(tmpdir(), "qm-clients-")));
const problems: string[] = [];
try {
  const qmBin = await installPackedCommand(join(folder, "qm"));
  printRow("client", "version", "connected", "undone", "task");
  for (const client of chosen) {
    const { name, version } = client;
    try {
      const row = await checkClient(client, join(folder, name), qmBin);
      printRow(name, version, ...[row.connected, row.undone, row.task].map((cell) => (cell === "yes" ? cell : "FAIL")));
      for (const [step, cell] of Object.entries(row)) if (cell !== "yes") problems.push(`${name}, ${step}: ${cell}`);
    } catch (thrown) {
      const reason = thrown instanceof Error ? thrown.message : String(thrown);
      printRow(name, version, thrown instanceof NotTriedError ? `not tried: ${reason}` : "FAIL");
      if (!(thrown instanceof NotTriedError)) problems.push(`${name}: ${reason}`);
    }
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
for (const problem of problems) console.log(`\n${problem}`);
process.exitCode = problems.length === 0 ? 0 : 1;

function printRow(client: string, version: string, ...cells: readonly string[]): void {
  console.log([client.padEnd(11), version.padEnd(9), ...cells.map((cell) => cell.padEnd(9))].join("  ").trimEnd());
}
