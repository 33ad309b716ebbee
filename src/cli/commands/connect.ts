import type { Command } from "commander";
import { QmError } from "../../core/errors.ts";
import type { Context } from "../context.ts";
import { examples } from "../options.ts";

export interface ConnectOptions {
  readonly profile?: string;
  readonly http?: boolean;
  readonly project?: boolean;
  readonly name: string;
  readonly undo?: boolean;
  readonly print?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

export function addConnect(program: Command, context: Context): void {
  program
    .command("connect")
    .summary("make Quartermaster a server of a client")
    .description(
      "Write Quartermaster into the configuration of a client, as one of its MCP servers. The change is shown and must be agreed to; everything else in the file stays as it is, and a copy is kept beside it. Without a client: list the clients, and which are connected.",
    )
    .argument("[client]", "the client, as in cursor")
    .option("--profile <name>", "the profile of the configuration that the client gets")
    .option("--http", "by the address of `qm serve`, where the client can; else it starts `qm mcp` itself")
    .option("--project", "in the file of this project, not in the user's own")
    .option("--name <name>", "what the client calls it", "qm")
    .option("--undo", "take it out again")
    .option("--print", "only print what is to be written, for doing it by hand")
    .option("--dry-run", "show the change, and stop")
    .option("-y, --yes", "do not ask: what is shown is agreed to")
    .addHelpText(
      "after",
      examples(
        "qm connect",
        "qm connect claude-code",
        "qm connect cursor --http --dry-run",
        "qm connect cursor --undo",
      ),
    )
    .action(async (client: string | undefined, options: ConnectOptions) => {
      const given = (["undo", "print", "http", "project", "profile"] as const).find(
        (key) => options[key] !== undefined,
      );
      if (client === undefined && given !== undefined)
        throw new QmError("invalid_arguments", `--${given} needs a client`, {
          hint: `\`qm connect\` lists them; \`qm connect cursor --${given}\` names one.`,
        });
      const { connect, listClients } = await import("../clients/connect.ts");
      return client === undefined ? listClients(context) : connect(context, client, options);
    });
}
