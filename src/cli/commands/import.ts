import type { Command } from "commander";
import type { Context } from "../context.ts";
import { examples } from "../options.ts";

export interface ImportOptions {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly project?: boolean;
  readonly only?: readonly string[];
}

export function addImport(program: Command, context: Context): void {
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
      examples("qm import --dry-run", "qm import cursor vscode", "qm import claude-code --project --only github"),
    )
    .action(async (clients: readonly string[], options: ImportOptions) => {
      const { importServers } = await import("../clients/import.ts");
      return importServers(context, clients, options);
    });
}
