import { clients } from "../../mcp/clients/clients.ts";
import { listClientConnections } from "../../mcp/clients/connect.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { detectClientEnvironment, getGatewayAddresses, getHome } from "../clients/gateway-entry.ts";
import { listDoubledServers } from "../clients/import.ts";
import type { Io } from "../context.ts";
import { type DoctorCheck, warn } from "./environment-checks.ts";

/** Finds servers that a connected client still lists itself. A model there has each of their tools twice. */
export async function checkClients(io: Io, workspace: Workspace): Promise<readonly DoctorCheck[]> {
  const { configPath, config } = workspace;
  if (configPath === undefined || !getHome(io)) return [];
  const around = detectClientEnvironment(io);
  const own = getGatewayAddresses(config.gateway);
  const checks: DoctorCheck[] = [];
  for (const client of clients) {
    if ((await listClientConnections(client, around, own)).length === 0) continue;
    for (const [scope, option] of [
      ["user", ""],
      ["project", " --project"],
    ] as const) {
      const names = await listDoubledServers({ io }, workspace, client, scope);
      if (names.length === 0) continue;
      const message = `${client.title} has ${names.join(", ")} twice: itself and through Quartermaster`;
      checks.push(warn("client", message, `Run \`qm connect ${client.name}${option} --move\`.`));
    }
  }
  return checks;
}
