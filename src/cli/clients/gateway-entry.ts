import { existsSync } from "node:fs";
import { resolveReference, variablesIn } from "../../config/references.ts";
import { QmError } from "../../core/errors.ts";
import type { Client, Raw } from "../../mcp/clients/client.ts";
import type { Workspace } from "../../workspace.ts";
import type { ConnectOptions } from "../commands/connect.ts";
import type { Context } from "../context.ts";
import { gatewayUrl, ownBin } from "./own.ts";

/** What a client is to be told of us. */
export interface GatewayEntry {
  readonly entry: Raw;
  /** A token that is written out in the entry, and is not to be shown. */
  readonly token?: string;
}

/** Our entry in a client's own words. */
export async function gatewayEntry(
  { io, out }: Context,
  workspace: Workspace,
  client: Client,
  options: ConnectOptions,
): Promise<GatewayEntry> {
  const { configPath, config } = workspace;
  const { profile } = options;
  if (configPath === undefined)
    throw new QmError("invalid_config", "there is no quartermaster.yaml that the client could be given", {
      hint: "`qm init` writes one; or name one with --config.",
    });
  const profiles = [...new Set(["default", ...Object.keys(config.gateway.profiles)])];
  if (profile !== undefined && !profiles.includes(profile))
    throw new QmError("invalid_arguments", `there is no profile ${JSON.stringify(profile)}`, {
      details: { valid: profiles },
    });
  if (options.http === true && client.gateway.http !== undefined) {
    const { headers, token } = await headersFor(io.env, workspace, client, options);
    const entry = client.gateway.http(gatewayUrl(config.gateway), headers);
    return { entry, ...(token === undefined ? {} : { token }) };
  }
  if (options.http === true) out.note(`${client.title} takes no address in its file: it will start \`qm mcp\` itself.`);
  const args = ["mcp", "--config", configPath, ...(profile === undefined ? [] : ["--profile", profile])];
  const [command, ...first] = ownCommand(io.platform, io.execPath);
  return { entry: client.gateway.stdio(command, [...first, ...args]) };
}

/**
 * What starts us from anywhere: this very Node and this very file, because programs with windows have another PATH. What
 * npx keeps for a while is not there for good, so there npx has to find it again.
 */
function ownCommand(platform: string, execPath: string): readonly [string, ...string[]] {
  if (!/[\\/]_npx[\\/]/.test(ownBin)) return [execPath, ownBin];
  const npx = ["npx", "-y", "quartermaster"] as const;
  return platform === "win32" ? ["cmd", "/c", ...npx] : npx;
}

/** Whether the file that a client would start is there. */
export function isBuilt(): boolean {
  return existsSync(ownBin);
}

async function headersFor(
  env: Context["io"]["env"],
  { config, secrets }: Workspace,
  client: Client,
  { profile = "default", project = false }: ConnectOptions,
): Promise<{ readonly headers: Readonly<Record<string, string>>; readonly token?: string }> {
  const { port, profiles } = config.gateway;
  if (port === 0)
    throw new QmError("invalid_config", "gateway.port is 0, so the address is another one each time", {
      hint: "Give gateway.port a number, or connect without --http.",
    });
  const reference = profiles[profile]?.token;
  if (reference === undefined)
    throw new QmError("invalid_config", `the profile ${profile} has no token`, {
      hint: `Write one into the configuration, as gateway.profiles.${profile}.token: \${env:QM_TOKEN}.`,
    });
  const [variable = ""] = variablesIn(reference);
  const isSecret = variable.startsWith("secret:");
  if (!isSecret && client.gateway.variable !== undefined)
    return { headers: { Authorization: `Bearer ${client.gateway.variable(variable)}` } };
  if (project)
    throw new QmError("denied", "the token would be written out in a file of the project, where others see it", {
      hint: isSecret
        ? `Let gateway.profiles.${profile}.token be \${env:NAME}, or leave --http out.`
        : `${client.title} has no variables in its file: leave --http or --project out.`,
    });
  const stored = isSecret ? await secrets.get(variable.slice("secret:".length)) : undefined;
  const filling = stored === undefined ? env : { ...env, [variable]: stored };
  const token = resolveReference(reference, filling, `gateway.profiles.${profile}.token`);
  return { headers: { Authorization: `Bearer ${token}` }, token };
}
