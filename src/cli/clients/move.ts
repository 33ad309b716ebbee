import { formatCount, toVisibleJson } from "../../core/display-text.ts";
import { omitUndefined } from "../../core/json.ts";
import { listClientConnections } from "../../mcp/clients/connect.ts";
import { planMove } from "../../mcp/clients/move.ts";
import type { PlannedServer } from "../../mcp/clients/plan-import.ts";
import { readClients } from "../../mcp/clients/read-clients.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { identifyApprover, requireApproval, requireYes } from "../approver.ts";
import type { ConnectOptions } from "../commands/clients.ts";
import { type Context, withWorkspace } from "../context.ts";
import { applyFileChanges, createConnectRequest, maskEntry, printFileChanges } from "./connect.ts";
import { buildGatewayEntry, formatUndoCommand, requireConfigPath } from "./gateway-entry.ts";
import {
  askImported,
  describeStarting,
  maskPlannedServers,
  planServers,
  printImportPlan,
  showImported,
  writeServers,
} from "./import.ts";

/** `qm connect <client> --move`: imports the client's servers, and replaces them by Quartermaster in its files. */
export async function runMove(context: Context, clientName: string, options: ConnectOptions): Promise<void> {
  const { out } = context;
  const request = await createConnectRequest(context, clientName, options);
  const { client, around, own, scope, name } = request;
  const { found: lists } = await readClients({ ...around, only: [client.name] });
  const found = lists.filter((list) => list.scope === scope);
  await withWorkspace(context, "ledger", async (workspace) => {
    const config = requireConfigPath(workspace);
    const connections = await listClientConnections(client, around, own);
    const isConnected = connections.some((connection) => connection.scope === scope);
    const made = isConnected ? undefined : await buildGatewayEntry(context, workspace, client, options);
    const plan = await planServers(context, workspace, config, found, { project: scope === "project" });
    const sources = [...plan.servers, ...plan.skipped.filter(({ known }) => known !== undefined)];
    const changes = await planMove(request, made?.entry, sources);
    const moved = changes.flatMap((change) => change.moved ?? []);
    const isSame = changes.every(({ before, after }) => before === after);
    const isWritten = !isSame && options.dryRun !== true;
    const isStarted = isWritten && plan.servers.length > 0 && options.start !== false;
    if (!out.isJson) printImportPlan(context, config, plan, found, [client.name]);
    else if (isWritten && plan.servers.length > 0) out.note(toVisibleJson(maskPlannedServers(plan), 2));
    printFileChanges(context, changes, { token: made?.token });
    if (isWritten) await requireAgreement(context, workspace, plan.servers, options);
    // First the configuration: a server that is listed twice does less harm than one that is lost.
    if (isWritten && plan.servers.length > 0) await writeServers(config, plan.servers, workspace.secrets);
    const backups = isWritten ? await applyFileChanges(changes) : [];
    const ask = async () => (isStarted ? await askImported(context, config, plan.servers) : undefined);
    if (out.isJson) {
      const extras = omitUndefined({ entry: made === undefined ? undefined : maskEntry(made), asked: await ask() });
      const [servers, skipped] = [maskPlannedServers(plan), plan.skipped.filter(({ known }) => known === undefined)];
      const answer = { client: client.name, name, config, moved, servers, skipped, changed: !isSame };
      return out.json({ ...answer, written: isWritten, backups, ...extras });
    }
    if (isSame) return out.line(`${client.title} has no servers to move.`);
    if (!isWritten) return out.line(out.dim("Nothing was changed."));
    out.line(`Moved ${formatCount(moved.length, "server")} of ${client.title}. ${client.restartHint}`);
    for (const backup of backups) out.note(`Backup, with any secrets that were in the file: ${backup}`);
    out.note(`To undo: ${formatUndoCommand(context, client, options)}`);
    showImported(context, (await ask()) ?? []);
  });
}

/** A new server runs a command here, so a person must approve it, as for an import. */
async function requireAgreement(
  context: Context,
  workspace: Workspace,
  added: readonly PlannedServer[],
  { yes, start = true }: ConnectOptions,
) {
  const starting = start && added.length > 0 ? `, ${describeStarting(added)}` : "";
  const asked = { question: `Write these changes${starting}?`, done: "changed", yes };
  if (added.length === 0) return requireYes(context, asked);
  await requireApproval(context, await identifyApprover(context, workspace), asked);
}
