import { canonicalJson, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { ClientScope } from "./clients.ts";
import {
  type ExtractedSecret,
  extractSecrets,
  generateServerNames,
  normalizeServerName,
  type SecretDetector,
} from "./extract-secrets.ts";
import { type ClientServerList, type ImportedServer, isOwnServer, type OwnAddresses } from "./read-clients.ts";
import type { ServerEntry } from "./server-entry.ts";
import { escapeReferences } from "./variables.ts";

type LaunchKey = "command" | "args" | "env" | "cwd" | "url" | "headers";
export type LaunchFields = { readonly [Key in LaunchKey]?: ServerEntry[Key] | undefined };

export interface ImportPlanOptions {
  readonly configured: Readonly<Record<string, LaunchFields>>;
  readonly own: OwnAddresses;
  readonly judge: SecretDetector;
  readonly storedSecret: (name: string) => Promise<string | undefined>;
  /** Used to note unset variables. */
  readonly env: { readonly [variable: string]: string | undefined };
  readonly project: boolean;
  /** The working directory of a project's servers, if it is not ours. */
  readonly projectFolder?: string;
  /** Names in the client or here. Default: all. */
  readonly only?: readonly string[];
  /** Returns why the configuration rejects an entry. */
  readonly check: (name: string, entry: ServerEntry) => string | undefined;
}

export interface ImportSource {
  readonly client: string;
  readonly path: string;
  readonly scope: ClientScope;
  /** The part of the file, if it has several. */
  readonly part?: string;
  /** The name in the client. */
  readonly called: string;
}

export interface PlannedServer extends ImportSource {
  readonly name: string;
  readonly entry: ServerEntry;
  readonly secrets: readonly ExtractedSecret[];
  readonly notes: readonly string[];
}

/** `known`: the same server is configured, or is planned from another entry. */
type SkipReason = { readonly why: string; readonly known?: "configured" | "planned" };
type SkippedServer = ImportSource & SkipReason;

export type ImportPlan = { readonly servers: readonly PlannedServer[]; readonly skipped: readonly SkippedServer[] };

/** Plans an import, with the reason for each skipped server. Changes nothing. */
export async function planImport(found: readonly ClientServerList[], options: ImportPlanOptions): Promise<ImportPlan> {
  const planned: PlannedServers = {
    byName: new Map(),
    byLaunch: new Map(),
    configured: new Map(Object.entries(options.configured).map(([name, entry]) => [toLaunchKey(entry), name])),
  };
  const skipped: SkippedServer[] = [];
  for (const list of found) {
    for (const server of list.servers) {
      if (!isWanted(server.name, options.only)) continue;
      const { path, scope, part } = list;
      const source = { client: list.client.name, path, scope, ...omitUndefined({ part }), called: server.name };
      const reason = await planServer(server, source, planned, options);
      if (reason !== undefined) skipped.push({ ...source, ...(typeof reason === "string" ? { why: reason } : reason) });
    }
  }
  return { servers: [...planned.byName.values()], skipped };
}

interface PlannedServers {
  readonly byName: Map<string, PlannedServer>;
  /** By launch key, with secrets in plain text. */
  readonly byLaunch: Map<string, PlannedServer>;
  /** Names by launch key, with secrets as references. */
  readonly configured: ReadonlyMap<string, string>;
}

function isWanted(name: string, only: readonly string[] | undefined): boolean {
  return only === undefined || only.length === 0 || only.includes(name) || only.includes(normalizeServerName(name));
}

/** Plans a server, or returns why it is skipped. */
async function planServer(
  server: ImportedServer,
  source: ImportSource,
  planned: PlannedServers,
  options: ImportPlanOptions,
): Promise<string | SkipReason | undefined> {
  if (server.entry === undefined) return server.unfit.join("; ");
  if (isOwnServer(server.entry, options.own)) return "it is Quartermaster itself";
  const isProject = source.scope === "project";
  if (isProject && !options.project)
    return "it comes from a project file that other people may have written; review it, then pass --project";
  const entry = isProject ? addProjectFolder(server.entry, options) : server.entry;
  const launch = toLaunchKey(entry);
  const same = planned.byLaunch.get(launch);
  if (same !== undefined) return { why: `it is the same server as ${same.name} from ${same.client}`, known: "planned" };
  for (const name of generateServerNames(normalizeServerName(server.name))) {
    if (planned.byName.has(name)) continue;
    const clean = await extractEntrySecrets(name, entry, planned, options);
    const configured = planned.configured.get(toLaunchKey(clean.entry));
    if (configured !== undefined) return { why: `it is already configured as ${configured}`, known: "configured" };
    if (Object.hasOwn(options.configured, name)) continue;
    const problem = options.check(name, clean.entry);
    if (problem !== undefined) return problem;
    const renamed = name === server.name ? [] : [`${quoteName(server.name)} is called ${name} here`];
    const notes = [...renamed, ...server.notes, ...listUnsetVariables(clean.entry, options.env)];
    const added = { ...source, name, ...clean, notes };
    planned.byName.set(name, added);
    planned.byLaunch.set(launch, added);
    return undefined;
  }
  return "too many servers have that name";
}

/** Clients start a project's servers in its folder, so relative paths start there. */
function addProjectFolder(entry: ServerEntry, { projectFolder }: ImportPlanOptions): ServerEntry {
  if (projectFolder === undefined || entry.command === undefined || entry.cwd !== undefined) return entry;
  return { ...entry, cwd: escapeReferences(projectFolder) };
}

function extractEntrySecrets(name: string, entry: ServerEntry, { byName }: PlannedServers, options: ImportPlanOptions) {
  const known = [...byName.values()].flatMap(({ secrets }) => secrets);
  const others = new Map(known.map((secret) => [secret.name, secret.value]));
  return extractSecrets(name, entry, options.judge, async (wanted, value) => {
    for (let number = 1; ; number++) {
      const candidate = number === 1 ? wanted : `${wanted}_${number}`;
      const stored = others.get(candidate) ?? (await options.storedSecret(candidate));
      // Do not overwrite a different secret of that name.
      if (stored !== undefined && stored !== value) continue;
      others.set(candidate, value);
      return candidate;
    }
  });
}

/** Servers are equal if they are launched alike. Name and description do not matter. */
function toLaunchKey({ command, args = [], env = {}, cwd, url, headers = {} }: LaunchFields): string {
  return canonicalJson(url === undefined ? [command, args, env, cwd ?? null] : [url, headers]);
}

function listUnsetVariables(entry: ServerEntry, env: ImportPlanOptions["env"]): readonly string[] {
  const referred = [...canonicalJson(entry).matchAll(/(?<!\$)\$\{env:(\w+)\}/g)].map(([, name = ""]) => name);
  return [...new Set(referred)].filter((name) => !env[name]).map((name) => `the variable ${name} is not set here`);
}
