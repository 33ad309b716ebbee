import type { Command } from "commander";
import { QmError } from "../../core/errors.ts";
import type { CommandContext } from "../context.ts";
import { formatExamples } from "../option-parsers.ts";

export interface ImportOptions {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly project?: boolean;
  readonly only?: readonly string[];
}

export function addImportCommand(program: Command, context: CommandContext): void {
  program
    .command("import")
    .summary("take over the MCP servers of other clients")
    .description(
      "Take over the MCP servers that other clients have configured. What would be added is shown and must be agreed to. Variables stay references; secrets that are written out go to the secret store and not into the configuration. The clients' files are only read.",
    )
    .argument("[client...]", "only these clients; `qm connect` lists them")
    .option("--dry-run", "show what would be added, and stop")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .option("--project", "also from files that came with this project, which others may have written")
    .option("--only <name...>", "only the servers of these names")
    .addHelpText(
      "after",
      formatExamples("qm import --dry-run", "qm import cursor vscode", "qm import claude-code --project --only github"),
    )
    .action(async (clients: readonly string[], options: ImportOptions) => {
      const { runImport } = await import("../clients/import.ts");
      return runImport(context, clients, options);
    });
}

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

export function addConnectCommand(program: Command, context: CommandContext): void {
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
      formatExamples(
        "qm connect",
        "qm runConnect claude-code",
        "qm runConnect cursor --http --dry-run",
        "qm runConnect cursor --undo",
      ),
    )
    .action(async (client: string | undefined, options: ConnectOptions) => {
      const given = (["undo", "print", "http", "project", "profile"] as const).find(
        (key) => options[key] !== undefined,
      );
      if (client === undefined && given !== undefined)
        throw new QmError("invalid_arguments", `--${given} needs a client`, {
          hint: `\`qm runConnect\` lists them; \`qm runConnect cursor --${given}\` names one.`,
        });
      const { runConnect, runClientsList } = await import("../clients/connect.ts");
      return client === undefined ? runClientsList(context) : runConnect(context, client, options);
    });
}
