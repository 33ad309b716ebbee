import { dirname, resolve } from "node:path";
import { addServers } from "../../config/edit.ts";
import { CONFIG_FILE } from "../../config/load.ts";
import { serverName, serverSchema } from "../../config/servers-schema.ts";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { visibleJson } from "../../core/visible.ts";
import { secretNames } from "../../ledger/secret-names.ts";
import { secretSpans } from "../../ledger/secret-text.ts";
import type { ServerEntry } from "../../mcp/clients/entry.ts";
import { fittedName } from "../../mcp/clients/names.ts";
import { type ImportPlan, type PlannedServer, planImport } from "../../mcp/clients/plan.ts";
import { type FoundList, readClients } from "../../mcp/clients/read.ts";
import type { SecretJudge } from "../../mcp/clients/secrets.ts";
import type { SecretStore } from "../../mcp/secret-store.ts";
import { systemRuntime } from "../../system-runtime.ts";
import type { Workspace } from "../../workspace.ts";
import type { ImportOptions } from "../commands/import.ts";
import { type Context, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { personAt, requireYes } from "../person.ts";
import { counted, shellQuoted } from "../text.ts";
import { ownAddresses, surroundingsOf } from "./own.ts";
import { planJson, plannedServers, showPlan } from "./show-plan.ts";

/** `qm import`: preview, question, secrets, configuration, in this order. */
export async function importServers(
  context: Context,
  clients: readonly string[],
  options: ImportOptions,
): Promise<void> {
  const { found } = await readClients({ ...surroundingsOf(context.io), only: clients });
  requireNamed(found, options);
  if (found.some(({ problems }) => problems.length > 0)) context.end(exitCodes.failed);
  await withWorkspace(context, "ledger", async (workspace) => {
    const { io, out } = context;
    const path = workspace.configPath ?? resolve(io.cwd, CONFIG_FILE);
    const plan = await planned(context, workspace, path, found, options);
    const isDone = options.dryRun === true || plan.servers.length === 0;
    if (!out.isJson) showPlan(context, path, plan, { found, asked: clients });
    // With --json the answer is on stdout; whoever is asked reads what it is about beside it.
    else if (!isDone) out.note(visibleJson(plannedServers(plan), 2));
    if (!isDone) {
      const question = `Add ${counted(plan.servers.length, "server")}?`;
      const person = await personAt(context, workspace);
      await requireYes(context, person, { question, done: "imported", yes: options.yes });
    }
    const backup = isDone ? undefined : await write(path, plan.servers, workspace.secrets);
    if (out.isJson) return out.json(planJson(path, plan, found, { written: !isDone, backup }));
    if (isDone) return out.line(out.dim(options.dryRun ? "Nothing was changed." : "There is nothing to add."));
    out.line(`Added ${counted(plan.servers.length, "server")} to ${path}. \`qm servers list\` shows them.`);
    const undo = backup === undefined ? `rm ${shellQuoted(path)}` : `mv ${shellQuoted(backup)} ${shellQuoted(path)}`;
    out.note(`To undo it: ${undo}`);
  });
}

function planned(
  { io }: Context,
  { config, secrets }: Workspace,
  path: string,
  found: readonly FoundList[],
  { project = false, only }: ImportOptions,
): Promise<ImportPlan> {
  return planImport(found, {
    configured: config.servers,
    own: ownAddresses(config.gateway),
    judge,
    storedSecret: (name) => secrets.get(name),
    env: io.env,
    project,
    ...(dirname(path) === io.cwd ? {} : { projectFolder: io.cwd }),
    ...(only === undefined ? {} : { only }),
    check,
  });
}

/** The same eyes that keep secrets out of the ledger. */
const judge: SecretJudge = { isSecretName: secretNames(), spansIn: (text) => secretSpans(text, []) };

function check(name: string, entry: ServerEntry): string | undefined {
  const issue = serverName.safeParse(name).error?.issues[0] ?? serverSchema.safeParse(entry).error?.issues[0];
  return issue && `the configuration cannot hold it: ${[...issue.path.map(String), issue.message].join(": ")}`;
}

/** A name that was typed and is nowhere is a typing error, not nothing to do. */
function requireNamed(found: readonly FoundList[], { only = [] }: ImportOptions): void {
  const names = found.flatMap(({ servers }) => servers.map(({ name }) => name));
  const missing = only.find((name) => !names.some((each) => each === name || fittedName(each) === name));
  if (missing === undefined) return;
  throw new QmError("not_found", `no client has a server called ${quoted(missing)}${didYouMean(missing, names)}`, {
    hint: "`qm import --dry-run` shows the servers there are.",
  });
}

/** Secrets first: a configuration whose secrets are missing is worse than secrets that nobody refers to. */
async function write(path: string, servers: readonly PlannedServer[], store: SecretStore): Promise<string | undefined> {
  const stored: string[] = [];
  try {
    for (const { name, value } of servers.flatMap(({ secrets }) => secrets)) {
      if ((await store.get(name)) === value) continue;
      await store.set(name, value);
      stored.push(name);
    }
    const entries = Object.fromEntries(
      servers.map(({ name, entry, client }) => [name, { ...entry, source: `imported from ${client}` }]),
    );
    return (await addServers(path, entries, systemRuntime)).backup;
  } catch (thrown) {
    for (const name of stored) await store.delete(name);
    throw thrown;
  }
}
