import type { Command } from "commander";
import { QmError } from "../../core/errors.ts";
import type { Context } from "../context.ts";
import { examples } from "../option-parsers.ts";
import { addImportOpenApiCommand } from "./apis.ts";

type ImportFlag = "dryRun" | "yes" | "project" | "start";
export type ImportOptions = Readonly<{ only?: readonly string[] } & { [Flag in ImportFlag]?: boolean }>;

export function addImportCommand(program: Command, context: Context): void {
  const importing = program
    .command("import")
    .summary("import the MCP servers of other clients")
    .description(
      "Import the MCP servers that other clients have configured. Shows the servers to add and asks for approval. Starts each once to read its tools, so that they can be found, and stops it again. Variables stay references; plain secrets go to the secret store, not into the configuration. The files of the clients are only read.",
    )
    .argument("[client...]", "only these clients; `qm connect` lists them")
    .option("--dry-run", "show what would be added, and stop")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .option("--project", "also read files of this project, which other people may have written")
    .option("--only <name...>", "only servers with these names")
    .option("--no-start", "start no server: its tools become known when it is first used")
    .addHelpText(
      ...examples("qm import --dry-run", "qm import cursor vscode", "qm import claude-code --project --only github"),
    )
    .action(async (clients: readonly string[], options: ImportOptions) => {
      const { runImport } = await import("../clients/import.ts");
      return runImport(context, clients, options);
    });
  addImportOpenApiCommand(importing, context);
}

type ConnectFlag = "http" | "project" | "absolute" | "move" | "undo" | "print" | "dryRun" | "yes" | "start";
export type ConnectOptions = Readonly<{ name: string; profile?: string } & { [Flag in ConnectFlag]?: boolean }>;

export function addConnectCommand(program: Command, context: Context): void {
  program
    .command("connect")
    .summary("add Quartermaster to the MCP servers of a client")
    .description(
      "Add Quartermaster to the configuration of a client, as one of its MCP servers. Shows the change and asks; the rest of the file stays unchanged, and a backup is written beside it. Without a client: list the clients and which are connected.",
    )
    .argument("[client]", "the client, for example cursor")
    .option("--profile <name>", "the gateway profile for this client")
    .option("--http", "use the URL of `qm serve` if the client supports it (default: the client starts `qm mcp`)")
    .option("--project", "write the file of this project instead of the user's own, without paths of this machine")
    .option("--absolute", "with --project: write absolute paths of this machine")
    .option("--move", "also move the client's own servers behind Quartermaster, as `qm import` would import them")
    .option("--no-start", "with --move: start no server: its tools become known when it is first used")
    .option("--name <name>", "the name of the entry", "qm")
    .option("--undo", "remove the entry again, and put moved servers back")
    .option("--print", "only print the entry")
    .option("--dry-run", "show the change, and stop")
    .option("-y, --yes", "do not ask")
    .addHelpText(
      ...examples("qm connect", "qm connect claude-code", "qm connect cursor --move", "qm connect cursor --undo"),
    )
    .action(async (client: string | undefined, options: ConnectOptions) => {
      const flags = ["undo", "move", "print", "http", "project", "profile"] as const;
      const option = flags.find((key) => options[key] !== undefined);
      if (client === undefined && option !== undefined)
        throw new QmError("invalid_arguments", `--${option} needs a client`, {
          hint: `\`qm connect\` lists them. For example: \`qm connect cursor --${option}\`.`,
        });
      if (options.absolute && !options.project)
        throw new QmError("invalid_arguments", "--absolute needs --project", {
          hint: "The user's own file always has absolute paths.",
        });
      const other = (["undo", "print"] as const).find((flag) => options.move && options[flag]);
      if (other !== undefined)
        throw new QmError("invalid_arguments", `--move and --${other} do not go together`, {
          hint: "Give only one of them. `--dry-run` shows what a move would change.",
        });
      if (client !== undefined && options.move) {
        const { runMove } = await import("../clients/move.ts");
        return runMove(context, client, options);
      }
      const { runConnect, runClientsList } = await import("../clients/connect.ts");
      return client === undefined ? runClientsList(context) : runConnect(context, client, options);
    });
}
