import type { Command } from "commander";
import type { Context } from "../context.ts";
import { examples } from "../options.ts";
import { addAdd } from "./servers/add.ts";
import { addList } from "./servers/list.ts";
import { addLogin } from "./servers/login.ts";
import { addLogs } from "./servers/logs.ts";
import { addRemove } from "./servers/remove.ts";
import { addReview } from "./servers/review.ts";
import { addStartStop } from "./servers/start-stop.ts";

/** In the order of the help. */
const subcommands = [addList, addAdd, addRemove, addStartStop, addLogs, addReview, addLogin];

export function addServers(program: Command, context: Context): void {
  const servers = program
    .command("servers")
    .helpCommand(false)
    .summary("the MCP servers whose tools are actions")
    .description("List, add, remove, start, stop and review MCP servers.")
    .addHelpText(
      "after",
      examples("qm servers list", "qm servers add npm:@modelcontextprotocol/server-memory", "qm servers review"),
    );
  for (const add of subcommands) add(servers, context);
}
