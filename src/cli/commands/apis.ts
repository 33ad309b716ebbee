import { rm } from "node:fs/promises";
import type { Command } from "commander";
import { systemRuntime } from "../../app/system-runtime.ts";
import { QmError } from "../../core/errors.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace, reportNotFound } from "../context.ts";
import { collectOption, examples } from "../option-parsers.ts";

export interface ImportOpenApiOptions {
  readonly name?: string;
  readonly server?: string;
  readonly only?: readonly string[];
  readonly secret?: readonly string[];
  readonly dryRun?: boolean;
}

export function addImportOpenApiCommand(importing: Command, context: Context): void {
  importing
    .command("openapi")
    .summary("import an OpenAPI document: its operations become actions")
    .description(
      "Import an OpenAPI 3.0 or 3.1 document. Each operation becomes an action api__<name>__<operation>. Requests and credentials go only to the imported server. Importing again replaces the API and keeps its credentials.",
    )
    .argument("<document>", "a file or an address, JSON or YAML")
    .option("--name <name>", "its name (default: derived from its title)")
    .option("--server <url>", "the address for all requests (default: the first server of the document)")
    .option("--only <globs>", "only these operations, as in list*,get*; may be repeated", collectOption)
    .option("--secret <scheme=NAME>", "the stored secret of a security scheme; USER:PASSWORD for basic", collectOption)
    .option("--dry-run", "show what would be imported, and stop")
    .addHelpText(
      ...examples(
        "qm import openapi openapi.yaml --dry-run",
        "qm import openapi https://example.com/openapi.json --name example --secret bearerAuth=EXAMPLE_TOKEN",
      ),
    )
    .action(async (document: string, options: ImportOpenApiOptions) => {
      const { importOpenApi } = await import("../apis/import-openapi.ts");
      return importOpenApi(context, document, options);
    });
}

export function addApisCommand(program: Command, context: Context): void {
  const apis = program
    .command("apis")
    .helpCommand(false)
    .summary("list and remove imported web APIs")
    .description("Look at the web APIs that `qm import openapi` has imported, and remove them.")
    .addHelpText(...examples("qm apis list", "qm apis remove example"));
  apis
    .command("list")
    .summary("list the imported APIs")
    .addHelpText(...examples("qm apis list --json"))
    .action(inWorkspace(context, "looking", listApis));
  apis
    .command("remove")
    .summary("remove an imported API from the configuration")
    .description("Remove an imported API from the configuration, and its compiled file. Its secrets stay stored.")
    .argument("<name>", "the name of the API")
    .addHelpText(...examples("qm apis remove example"))
    .action(inWorkspace(context, "ledger", removeApi));
}

function listApis({ out }: Context, { config, quartermaster }: Workspace) {
  const actions = quartermaster.inventory().map(({ name }) => String(name));
  const apis = Object.entries(config.apis).map(([name, { server, source, enabled }]) => {
    const operations = actions.filter((action) => action.startsWith(`api__${name}__`)).length;
    return { name, server, operations, enabled, ...(source === undefined ? {} : { source }) };
  });
  if (out.isJson || apis.length === 0)
    return out.answer({ apis }, "No API is imported. Run `qm import openapi <document>`.");
  out.table(
    ["name", "server", "operations", "source"],
    apis.map(({ name, server, operations, enabled, source }) => [
      name,
      server,
      enabled ? String(operations) : "off",
      source ?? "",
    ]),
  );
}

async function removeApi(context: Context, { configPath, storePath }: Workspace, name: string): Promise<void> {
  const { removeConfiguredApi } = await import("../../config/edit-servers.ts");
  const { getCompiledPath } = await import("../../workspace/apis.ts");
  await reportNotFound(context, async () => {
    if (configPath === undefined) throw new QmError("not_found", `there is no API ${name}`);
    await removeConfiguredApi(configPath, name, systemRuntime);
    await rm(getCompiledPath(storePath, name), { force: true });
    context.out.answer({ removed: name }, `${name} is removed.`);
  });
}
