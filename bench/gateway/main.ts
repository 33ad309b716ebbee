import { loadavg } from "node:os";
import { machine } from "../machine.ts";
import { benchOptions } from "../options.ts";
import { printed, type Table } from "../table.ts";
import { benchCalls, type Cost } from "./calls.ts";
import { benchCold, type Start } from "./cold.ts";
import { builtCommand } from "./command.ts";
import { executor } from "./executor.ts";
import { direct, type Gateway } from "./gateway.ts";
import { type After, benchLong } from "./long.ts";
import { mcpHub } from "./mcp-hub.ts";
import { type OursOptions, ours } from "./ours.ts";
import { installedPeers } from "./peers.ts";
import { canReadProcesses } from "./processes.ts";
import { floor } from "./raw.ts";
import { newGround } from "./stand.ts";
import { targets } from "./targets.ts";

const { only, quick, json } = benchOptions(["calls", "cold", "long"]);
if (!canReadProcesses()) throw new Error("this bench needs /proc, which this system does not have");

const notes: string[] = [];
const say = (line: string): void => {
  notes.push(line);
  if (!json) console.error(line);
};
const tables: Table[] = [];
const show = (table: Table): void => {
  tables.push(table);
  if (!json) console.log(printed(table));
};

const loadBefore = loadavg()[0];
if (!json) console.log(`${Object.entries(machine).flat().join(" ")}, load ${loadBefore}\n`);

const ground = newGround();
let removeCommand = (): void => {};
const tidyUp = (): void => {
  ground.close();
  removeCommand();
};
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    tidyUp();
    process.exit(1);
  });
}
try {
  if (quick) say("quick: too few rounds for figures to publish");
  const command = builtCommand();
  removeCommand = command.remove;
  const peers = installedPeers(say);
  const qm = (face: OursOptions["face"], surface: OursOptions["surface"], more: Partial<OursOptions> = {}): Gateway =>
    ours({ bin: command.bin, face, surface, ...more });
  const others = [
    ...(peers.mcpHub ? [mcpHub()] : []),
    ...(peers.executor ? (quick ? [executor("HTTP")] : [executor("stdio"), executor("HTTP")]) : []),
  ];
  const options = { ground, quick, say, show };

  let costs: readonly Cost[] = [];
  if (only === undefined || only === "calls") {
    const gateways = [
      floor(),
      qm("serve", "universal", { isRaw: true }),
      qm("serve", "pass-through", { isRaw: true }),
      direct(ground, "stdio"),
      direct(ground, "http"),
      direct(ground, "http", "modern"),
      qm("mcp", "universal"),
      qm("mcp", "pass-through"),
      qm("serve", "universal"),
      qm("serve", "pass-through"),
      qm("serve", "universal", { era: "modern" }),
      qm("serve", "pass-through", { era: "modern" }),
      ...others,
    ];
    costs = await benchCalls({ ...options, gateways });
  }
  let starts: readonly Start[] = [];
  if (only === undefined || only === "cold") {
    const gateways = [
      qm("mcp", "universal"),
      qm("mcp", "pass-through"),
      qm("serve", "universal"),
      qm("mcp", "universal", { known: false }),
      qm("mcp", "pass-through", { known: false }),
      ...others,
    ];
    starts = await benchCold({ ...options, gateways });
  }
  let afters: readonly After[] = [];
  if (only === undefined || only === "long") {
    const gateways = [qm("mcp", "universal"), ...(quick ? [] : [qm("serve", "universal")]), ...others];
    afters = await benchLong({ ...options, gateways });
  }
  show(targets({ costs, starts, afters }));
} finally {
  tidyUp();
}
const load = { before: loadBefore, after: loadavg()[0] };
console.log(
  json
    ? JSON.stringify({ machine, load, notes, tables }, null, 2)
    : `load ${load.before} at the beginning, ${load.after} at the end`,
);
process.exit();
