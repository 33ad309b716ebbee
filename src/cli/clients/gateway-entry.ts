import { existsSync } from "node:fs";
import { join } from "node:path";
import { findPackageFolder } from "../../app/system-runtime.ts";
import { listVariables, SECRET_PREFIX } from "../../config/references.ts";
import type { Config } from "../../config/schema.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn } from "../../core/json.ts";
import type { ClientEnvironment } from "../../mcp/clients/client-paths.ts";
import type { ClientDefinition, RawEntry } from "../../mcp/clients/clients.ts";
import type { OwnAddresses } from "../../mcp/clients/read-clients.ts";
import { getGatewayProfile, loadOrCreateToken } from "../../mcp/gateway/profiles.ts";
import { getTokenPath } from "../../workspace/state-paths.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { ConnectOptions } from "../commands/clients.ts";
import type { CommandContext, Io } from "../context.ts";

/** The built program. */
export const ownBin: string = join(findPackageFolder(), "dist/bin/qm.js");

/** Where clients' files are looked for, as the process says. */
export function detectClientEnvironment({ cwd, env, platform }: Io): ClientEnvironment {
  const home = platform === "win32" ? env.USERPROFILE || env.HOME : env.HOME;
  if (home) return { home, cwd, env, platform };
  throw new QmError("invalid_arguments", "the home folder is not known, so neither are clients' files", {
    hint: `Set ${platform === "win32" ? "USERPROFILE" : "HOME"}.`,
  });
}

/** The address of `qm serve`, as somebody on this machine calls it. */
function getGatewayUrl({ host, port }: Config["gateway"]): string {
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${name.includes(":") ? `[${name}]` : name}:${port}/mcp`;
}

/** How an entry that is Quartermaster itself is told. Without a configuration, where it is by default. */
export function getGatewayAddresses(gateway: Config["gateway"] | undefined): OwnAddresses {
  return { bin: ownBin, urls: [gateway === undefined ? "http://127.0.0.1:7420/mcp" : getGatewayUrl(gateway)] };
}

/** What a client is to be told of us. */
export interface GatewayEntry {
  readonly entry: RawEntry;
  /** A token that is written out in the entry, and is not to be shown. */
  readonly token?: string | undefined;
}

/** Our entry in a client's own words. */
export async function buildGatewayEntry(
  { io, out }: CommandContext,
  workspace: Workspace,
  client: ClientDefinition,
  options: ConnectOptions,
): Promise<GatewayEntry> {
  const { configPath, config } = workspace;
  const { profile } = options;
  if (configPath === undefined)
    throw new QmError("invalid_config", "there is no quartermaster.yaml that the client could be given", {
      hint: "`qm init` writes one; or name one with --config.",
    });
  if (profile !== undefined) getGatewayProfile(config, profile);
  if (options.http === true && client.gateway.http !== undefined) {
    const { headers, token } = await buildHeaders(workspace, client, options);
    const entry = client.gateway.http(getGatewayUrl(config.gateway), headers);
    return { entry, ...(token === undefined ? {} : { token }) };
  }
  if (options.http === true) out.note(`${client.title} takes no address in its file: it will start \`qm mcp\` itself.`);
  const args = ["mcp", "--config", configPath, ...(profile === undefined ? [] : ["--profile", profile])];
  const [command, ...first] = getOwnCommand(io.platform, io.execPath);
  return { entry: client.gateway.stdio(command, [...first, ...args]) };
}

/**
 * What starts us from anywhere: this very Node and this very file, because programs with windows have another PATH. What
 * npx keeps for a while is not there for good, so there npx has to find it again.
 */
function getOwnCommand(platform: string, execPath: string): readonly [string, ...string[]] {
  if (!/[\\/]_npx[\\/]/.test(ownBin)) return [execPath, ownBin];
  const npx = ["npx", "-y", "quartermaster"] as const;
  return platform === "win32" ? ["cmd", "/c", ...npx] : npx;
}

/** Whether the file that a client would start is there. */
export function isProgramBuilt(): boolean {
  return existsSync(ownBin);
}

interface GatewayHeaders {
  readonly headers: Readonly<Record<string, string>>;
  readonly token?: string;
}

/** What a client proves itself by: the name of a variable where it has variables and the token is in one. */
async function buildHeaders(
  workspace: Workspace,
  client: ClientDefinition,
  options: ConnectOptions,
): Promise<GatewayHeaders> {
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
  const [variable] = reference === undefined ? [] : listVariables(reference);
  if (variable !== undefined && !variable.startsWith(SECRET_PREFIX) && client.gateway.variable !== undefined)
    return { headers: { Authorization: `Bearer ${client.gateway.variable(variable)}` } };
  if (project)
    throw new QmError("denied", "the token would be written out in a file of the project, where others see it", {
      hint:
        client.gateway.variable === undefined
          ? `${client.title} has no variables in its file: leave --http or --project out.`
          : `Let ${key} be \${env:NAME}, or leave --http out.`,
    });
  const token = reference === undefined ? await readGatewayToken(workspace, options) : workspace.fill(reference, key);
  return { headers: { Authorization: `Bearer ${token}` }, token };
}

/** The token that `qm serve` makes at its first start. Whoever only looks does not make it. */
async function readGatewayToken(
  { storePath }: Workspace,
  { dryRun = false, print = false }: ConnectOptions,
): Promise<string> {
  const path = getTokenPath(storePath);
  return (dryRun || print) && !existsSync(path) ? "<token>" : loadOrCreateToken(path);
}
