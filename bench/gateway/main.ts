import { availableParallelism, cpus, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { printed, type Table } from "../table.ts";
import { benchCalls } from "./calls.ts";
import { builtCommand } from "./command.ts";
import { executor } from "./executor.ts";
import { direct, type Gateway } from "./gateway.ts";
import { mcpHub } from "./mcp-hub.ts";
import { ours } from "./ours.ts";
import { installedPeers } from "./peers.ts";
import { newGround } from "./stand.ts";

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const { only, quick, json } = values;
const say = (line: string) => console.error(line);
const show = (made: readonly Table[]) => console.log(made.map(printed).join("\n"));
const ground = newGround();
const command = builtCommand();
const { bin } = command;
const peers = installedPeers(say);
try {
  console.log(cpus()[0]?.model, availableParallelism(), loadavg(), json, only);
  const gateways: Gateway[] = [
    direct(ground, "stdio"),
    direct(ground, "http"),
    direct(ground, "http", "modern"),
    ours({ ground, bin, face: "mcp", surface: "universal" }),
    ours({ ground, bin, face: "mcp", surface: "pass-through" }),
    ours({ ground, bin, face: "serve", surface: "universal" }),
    ours({ ground, bin, face: "serve", surface: "pass-through" }),
    ours({ ground, bin, face: "serve", surface: "universal", era: "modern" }),
    ours({ ground, bin, face: "serve", surface: "pass-through", era: "modern" }),
    ...(peers.mcpHub ? [mcpHub(ground)] : []),
    ...(peers.executor ? [executor(ground, "stdio"), executor(ground, "HTTP")] : []),
  ];
  const { tables, costs } = await benchCalls({ ground, gateways, quick, say });
  show(tables);
  console.log(costs);
} finally {
  ground.close();
  command.remove();
}
process.exit();
