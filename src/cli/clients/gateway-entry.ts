import { existsSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import { findPackageFolder } from "../../app/system-runtime.ts";
import { listVariables, SECRET_PREFIX } from "../../config/references.ts";
import type { Config } from "../../config/schema.ts";
import { quoteShellWord } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn } from "../../core/json.ts";
import type { ClientEnvironment } from "../../mcp/clients/client-paths.ts";
import type { ClientDefinition, RawEntry } from "../../mcp/clients/clients.ts";
import type { OwnAddresses } from "../../mcp/clients/read-clients.ts";
import { getGatewayProfile, loadOrCreateToken } from "../../mcp/gateway/profiles.ts";
import { getTokenPath } from "../../workspace/state-paths.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { ConnectOptions } from "../commands/clients.ts";
import type { Context, Io } from "../context.ts";

/** The built program that a client starts. */
export const ownBin: string = join(findPackageFolder(), "dist/bin/qm.js");

export const getHome = ({ env, platform }: Io): string | undefined =>
  platform === "win32" ? env.USERPROFILE || env.HOME : env.HOME;

/** The folders in which the files of clients are looked for. */
export function detectClientEnvironment(io: Io): ClientEnvironment {
  const { cwd, env, platform } = io;
  const home = getHome(io);
  if (home) return { home, cwd, env, platform };
  const hint = `Set ${platform === "win32" ? "USERPROFILE" : "HOME"}.`;
  throw new QmError("invalid_arguments", "the home folder, which holds the files of clients, is not known", { hint });
}

/** The URL of `qm serve` for a client on this machine. */
function getGatewayUrl({ host, port }: Config["gateway"]): string {
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${name.includes(":") ? `[${name}]` : name}:${port}/mcp`;
}

/** The addresses by which an entry of a client is recognized as Quartermaster. */
export function getGatewayAddresses(gateway: Config["gateway"] | undefined): OwnAddresses {
  return { bin: ownBin, urls: [gateway === undefined ? "http://127.0.0.1:7420/mcp" : getGatewayUrl(gateway)] };
}

export interface GatewayEntry {
  /** The entry for Quartermaster in the format of the client. */
  readonly entry: RawEntry;
  /** A plain token in the entry, which must not be displayed. */
  readonly token?: string | undefined;
}

export function requireConfigPath({ configPath }: Workspace): string {
  if (configPath !== undefined) return configPath;
  const hint = "Run `qm init` to write one, or give one with --config.";
  throw createConfigError("there is no quartermaster.yaml for the client to use", hint);
}

export async function buildGatewayEntry(
  { io, out }: Context,
  workspace: Workspace,
  client: ClientDefinition,
  options: ConnectOptions,
): Promise<GatewayEntry> {
  const { config } = workspace;
  const { profile, http = false } = options;
  const configPath = requireConfigPath(workspace);
  if (profile !== undefined) getGatewayProfile(config, profile);
  if (http && client.gateway.http !== undefined) {
    const { authorization, token } = await buildAuthorization(workspace, client, options);
    const entry = client.gateway.http(getGatewayUrl(config.gateway), { Authorization: authorization });
    return { entry, token };
  }
  if (http) out.note(`${client.title} supports no URL in its file: it will start \`qm mcp\` itself.`);
  const isShared = options.project === true && options.absolute !== true;
  const path = isShared ? toSharedPath(client, io.cwd, configPath) : configPath;
  if (isShared && path.includes("../")) out.note(`The entry refers to ${path}, outside of this folder.`);
  const args = ["mcp", "--config", path, ...(profile === undefined ? [] : ["--profile", profile])];
  const [command, ...first] = isShared ? SHARED_COMMAND : getOwnCommand(io.platform, io.execPath);
  return { entry: client.gateway.stdio(command, [...first, ...args]) };
}

/** Starts the `qm` of the project or a global one, on any machine. `--no`: npx must not install a package of the name. */
const SHARED_COMMAND = ["npx", "--no", "--", "qm"] as const;

/** A path for a file that is shared with other machines. Clients start the servers of a project in its folder. */
function toSharedPath({ variables }: ClientDefinition, folder: string, configPath: string): string {
  const path = relative(folder, configPath);
  if (isAbsolute(path)) {
    const hint = "Move the configuration into the project, or give --absolute to write paths of this machine.";
    throw new QmError("invalid_arguments", `no relative path leads from ${folder} to ${configPath}`, { hint });
  }
  const portable = path.replaceAll("\\", "/");
  return variables.includes("place") ? `\${workspaceFolder}/${portable}` : portable;
}

/**
 * The command that starts this program from anywhere: this Node and this file, because desktop programs have another
 * PATH. The npx cache is temporary, so a program in it is started through npx.
 */
function getOwnCommand(platform: string, execPath: string): readonly [string, ...string[]] {
  if (!/[\\/]_npx[\\/]/.test(ownBin)) return [execPath, ownBin];
  const npx = ["npx", "-y", "quartermaster"] as const;
  return platform === "win32" ? ["cmd", "/c", ...npx] : npx;
}

/** The command line that undoes a connection, for the same entry and with `qm` called as it was called now. */
export function formatUndoCommand({ io, globals }: Context, client: ClientDefinition, options: ConnectOptions): string {
  const { script = "qm" } = io;
  const isInstalled = !script.endsWith("qm.js") || /[\\/]node_modules[\\/]quartermaster[\\/]/.test(script);
  const isTemporary = /[\\/]_npx[\\/]/.test(script);
  const program = isTemporary ? ["npx", "-y", "quartermaster"] : isInstalled ? ["qm"] : ["node", script];
  const scope = options.project ? ["--project"] : [];
  const name = options.name === "qm" ? [] : ["--name", options.name];
  const config = globals.config === undefined ? [] : ["--config", resolve(io.cwd, globals.config)];
  return [...program, "connect", client.name, ...scope, ...name, ...config, "--undo"].map(quoteShellWord).join(" ");
}

/** Refers to a variable if the client supports variables and the token is in one. Otherwise holds the plain token. */
async function buildAuthorization(
  { config, storePath, fill }: Workspace,
  client: ClientDefinition,
  { profile = "default", project = false, dryRun = false, print = false }: ConnectOptions,
) {
  const key = `gateway.profiles.${profile}.token`;
  if (config.gateway.port === 0)
    throw new QmError("invalid_config", "gateway.port is 0, so the URL changes with every start", {
      hint: "Set gateway.port to a fixed port, or connect without --http.",
    });
  const reference = getOwn(config.gateway.profiles, profile)?.token;
  if (reference === undefined && profile !== "default")
    throw createConfigError(
      `the profile ${profile} has no token`,
      `Add one to the configuration: ${key}: \${env:QM_TOKEN}.`,
    );
  const [variable] = reference === undefined ? [] : listVariables(reference);
  if (variable !== undefined && !variable.startsWith(SECRET_PREFIX) && client.gateway.variable !== undefined)
    return { authorization: `Bearer ${client.gateway.variable(variable)}`, token: undefined };
  if (project) {
    const hint = client.gateway.variable
      ? `Set ${key} to \${env:NAME}, or leave out --http.`
      : `${client.title} supports no variables in its file: leave out --http or --project.`;
    const message = "the plain token would be in a file of the project, where others can read it";
    throw new QmError("denied", message, { hint });
  }
  const path = getTokenPath(storePath);
  // --dry-run and --print do not create the token that `qm serve` creates at its first start.
  const isPreview = (dryRun || print) && !existsSync(path);
  const token = reference !== undefined ? fill(reference, key) : isPreview ? "<token>" : await loadOrCreateToken(path);
  return { authorization: `Bearer ${token}`, token };
}

function createConfigError(message: string, hint: string): QmError {
  return new QmError("invalid_config", message, { hint });
}
