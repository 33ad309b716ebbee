import type { Command } from "commander";
import { systemRuntime } from "../../app/system-runtime.ts";
import { quoteShellWord, toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace, reportNotFound } from "../context.ts";
import { collectOption, examples } from "../option-parsers.ts";

export interface ImportOpenApiOptions {
  readonly name?: string;
  readonly server?: string;
  readonly operations?: readonly string[];
  readonly secret?: readonly string[];
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

export function addImportOpenApiCommand(importing: Command, context: Context): void {
  importing
    .command("openapi")
    .summary("import an OpenAPI document: its operations become actions")
    .description(
      "Import an OpenAPI 3.0 or 3.1 document. Each operation becomes an action api__<name>__<operation>. Requests and credentials go only to the imported server. Importing again shows what changes, and keeps the address, the credentials and the overrides.",
    )
    .argument("<document>", "a file or an address, JSON or YAML")
    .option("--name <name>", "its name (default: derived from its title)")
    .option("--server <url>", "the address for all requests (default: the first server of the document)")
    .option("--operations <globs>", "only these operations, as in list*,get*; may be repeated", collectOption)
    .option("--secret <scheme=NAME>", "the stored secret of a security scheme; USER:PASSWORD for basic", collectOption)
    .option("--dry-run", "show what would be imported, and stop")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .addHelpText(
      ...examples(
        "qm import openapi openapi.yaml --dry-run",
        "qm import openapi https://example.com/openapi.json --name example --secret bearerAuth=EXAMPLE_TOKEN",
      ),
    )
    .action(async (document: string, _options: unknown, command: Command) => {
      const { importOpenApi } = await import("../apis/import-openapi.ts");
      // `qm import` has --dry-run and --yes too, and its parser takes them.
      return importOpenApi(context, document, command.optsWithGlobals<ImportOpenApiOptions>());
    });
}

export function addApisCommand(program: Command, context: Context): void {
  const apis = program
    .command("apis")
    .helpCommand(false)
    .summary("list, show and remove imported web APIs")
    .description("Look at the web APIs that `qm import openapi` has imported, and remove them.")
    .addHelpText(...examples("qm apis list", "qm apis remove example"));
  apis
    .command("list")
    .summary("list the imported APIs")
    .addHelpText(...examples("qm apis list --json"))
    .action(inWorkspace(context, "looking", listApis));
  apis
    .command("show")
    .summary("show the operations and credentials of an imported API")
    .argument("<name>", "the name of the API")
    .addHelpText(...examples("qm apis show example", "qm apis show example --json"))
    .action(inWorkspace(context, "looking", showApi));
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

async function showApi(context: Context, workspace: Workspace, name: string): Promise<void> {
  const { config, quartermaster, storePath, fill } = workspace;
  const { out } = context;
  const { parseCompiledApi } = await import("../../providers/api/compiled-api.ts");
  const { readCompiled } = await import("../../workspace/apis.ts");
  const { listVariables, SECRET_PREFIX } = await import("../../config/references.ts");
  await reportNotFound(context, async () => {
    const configured = getOwn(config.apis, name);
    if (configured === undefined) throw createUnknownApiError(name, Object.keys(config.apis));
    const { server, otherServers, source, auth, digest } = configured;
    const api = parseCompiledApi(await readCompiled(storePath, name, digest));
    const known = new Map(quartermaster.inventory().map((action) => [String(action.name), action]));
    const hasCredential = (scheme: string) => Object.hasOwn(auth, scheme) && canFill(fill, auth[scheme] ?? "");
    const operations = api.operations.map(({ entry, method, path, security }) => {
      const action = `api__${name}__${entry}`;
      const isReady = security.length === 0 || security.some((set) => set.every(hasCredential));
      const effect = known.get(action)?.effect;
      const state = effect === undefined ? "off" : isReady ? "ready" : "needs login";
      return { action, method, path, ...omitUndefined({ effect }), state };
    });
    const schemes = Object.entries(api.schemes).map(([scheme, { kind }]) => ({
      scheme,
      kind,
      credential: getOwn(auth, scheme) ?? null,
      stored: hasCredential(scheme),
    }));
    const servers = [server, ...otherServers];
    if (out.isJson)
      return out.json({ name, title: api.title, servers, ...omitUndefined({ source }), schemes, operations });
    out.line(`${toOneLine(api.title || name)}: requests go only to ${servers.join(", ")}`);
    for (const { scheme, kind, credential, stored } of schemes)
      out.line(
        `${toOneLine(scheme)} (${kind}): ${credential ?? "no credential"}${credential && !stored ? ", not stored yet" : ""}`,
      );
    const references = schemes.flatMap(({ credential, stored }) => (stored ? [] : listVariables(credential ?? "")));
    const secrets = references.filter((each) => each.startsWith(SECRET_PREFIX));
    for (const secret of secrets)
      out.note(`Next: qm secrets set ${quoteShellWord(secret.slice(SECRET_PREFIX.length))}`);
    out.table(
      ["action", "method", "path", "effect", "state"],
      operations.map(({ action, method, path, effect = "", state }) => [action, method, path, effect, state]),
    );
  });
}

function canFill(fill: Workspace["fill"], reference: string): boolean {
  try {
    return fill(reference, "apis") !== "";
  } catch {
    return false;
  }
}

function createUnknownApiError(name: string, known: readonly string[]): QmError {
  return new QmError("not_found", `there is no API ${quoteName(name)}${didYouMean(name, known)}`, {
    hint: "`qm apis list` shows the imported ones.",
  });
}

async function removeApi(context: Context, { config, configPath, storePath }: Workspace, name: string): Promise<void> {
  const { removeConfiguredApi } = await import("../../config/edit-config.ts");
  const { removeCompiledApis } = await import("../../workspace/apis.ts");
  await reportNotFound(context, async () => {
    if (configPath === undefined || !Object.hasOwn(config.apis, name))
      throw createUnknownApiError(name, Object.keys(config.apis));
    await removeConfiguredApi(configPath, name, systemRuntime);
    await removeCompiledApis(storePath, name);
    context.out.answer({ removed: name }, `${name} is removed.`);
  });
}
