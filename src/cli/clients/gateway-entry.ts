import { existsSync } from "node:fs";
import { SECRET, variablesIn } from "../../config/references.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn } from "../../core/json.ts";
import type { Client, Raw } from "../../mcp/clients/client.ts";
import { profileOf } from "../../mcp/gateway/profiles.ts";
import { tokenIn } from "../../mcp/gateway/token-file.ts";
import { tokenPathOf } from "../../store-places.ts";
import type { Workspace } from "../../workspace.ts";
import type { ConnectOptions } from "../commands/connect.ts";
import type { Context } from "../context.ts";
import { gatewayUrl, ownBin } from "./own.ts";

/** What a client is to be told of us. */
export interface GatewayEntry {
  readonly entry: Raw;
  /** A token that is written out in the entry, and is not to be shown. */
  readonly token?: string | undefined;
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
  if (profile !== undefined) profileOf(config, profile);
  if (options.http === true && client.gateway.http !== undefined) {
    const { headers, token } = await headersFor(workspace, client, options);
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

interface Headers {
  readonly headers: Readonly<Record<string, string>>;
  readonly token?: string;
}

/** What a client proves itself by: the name of a variable where it has variables and the token is in one. */
async function headersFor(workspace: Workspace, client: Client, options: ConnectOptions): Promise<Headers> {
  const { config } = workspace;
  const { profile = "default", project = false } = options;
  const key = `gateway.profiles.${profile}.token`;
  if (config.gateway.port === 0)
    throw new QmError("invalid_config", "gateway.port is 0, so the address is another one each time", {
      hint: "Give gateway.port a number, or connect without --http.",
    });
  const reference = getOwn(config.gateway.profiles, profile)?.token;
  if (reference === undefined && profile !== "default")
    throw new QmError("invalid_config", `the profile ${profile} has no token`, {
      hint: `Write one into the configuration, as ${key}: \${env:QM_TOKEN}.`,
    });
  const [variable] = reference === undefined ? [] : variablesIn(reference);
  if (variable !== undefined && !variable.startsWith(SECRET) && client.gateway.variable !== undefined)
    return { headers: { Authorization: `Bearer ${client.gateway.variable(variable)}` } };
  if (project)
    throw new QmError("denied", "the token would be written out in a file of the project, where others see it", {
      hint:
        client.gateway.variable === undefined
          ? `${client.title} has no variables in its file: leave --http or --project out.`
          : `Let ${key} be \${env:NAME}, or leave --http out.`,
    });
  const token = reference === undefined ? await madeToken(workspace, options) : workspace.fill(reference, key);
  return { headers: { Authorization: `Bearer ${token}` }, token };
}

/** The token that `qm serve` makes at its first start. Whoever only looks does not make it. */
async function madeToken({ storePath }: Workspace, { dryRun = false, print = false }: ConnectOptions): Promise<string> {
  const path = tokenPathOf(storePath);
  return (dryRun || print) && !existsSync(path) ? "<token>" : tokenIn(path);
}
