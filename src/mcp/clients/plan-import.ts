import { canonicalJson } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { ClientScope } from "./clients.ts";
import {
  type ExtractedSecret,
  extractSecrets,
  generateServerNames,
  normalizeServerName,
  type SecretDetector,
} from "./extract-secrets.ts";
import type { ClientServerList, ImportedServer } from "./read-clients.ts";
import { isOwnServer, type OwnAddresses } from "./read-clients.ts";
import type { ServerEntry } from "./server-entry.ts";
import { escapeReferences } from "./variables.ts";

/** How a server is reached, in the words of a configuration. */
export interface LaunchFields {
  readonly command?: string | undefined;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
  readonly url?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ImportPlanOptions {
  /** The servers that are configured already, by name. */
  readonly configured: Readonly<Record<string, LaunchFields>>;
  readonly own: OwnAddresses;
  readonly judge: SecretDetector;
  /** What is stored under a name by now. */
  readonly storedSecret: (name: string) => Promise<string | undefined>;
  /** Variables that are there, for a word about those that are not. */
  readonly env: { readonly [variable: string]: string | undefined };
  /** Whether files that came with a project are imported too. */
  readonly project: boolean;
  /** The folder that servers of a project are started in, where ours is another. */
  readonly projectFolder?: string;
  /** Only servers of these names, the client's or ours. Absent: all. */
  readonly only?: readonly string[];
  /** What our configuration has against an entry. */
  readonly check: (name: string, entry: ServerEntry) => string | undefined;
}

/** Where a server was found. */
interface ImportSource {
  readonly client: string;
  readonly path: string;
  readonly scope: ClientScope;
  /** What the client calls it. */
  readonly called: string;
}

export interface PlannedServer extends ImportSource {
  readonly name: string;
  readonly entry: ServerEntry;
  readonly secrets: readonly ExtractedSecret[];
  readonly notes: readonly string[];
}

export interface SkippedServer extends ImportSource {
  readonly why: string;
}

export interface ImportPlan {
  readonly servers: readonly PlannedServer[];
  readonly skipped: readonly SkippedServer[];
}

/** What importing would add, and what it would leave and why. Changes nothing. */
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
      const source = { client: list.client.name, path: list.path, scope: list.scope, called: server.name };
      const why = await planServer(server, source, planned, options);
      if (why !== undefined) skipped.push({ ...source, why });
    }
  }
  return { servers: [...planned.byName.values()], skipped };
}

interface PlannedServers {
  readonly byName: Map<string, PlannedServer>;
  /** By how they are reached, secrets included. */
  readonly byLaunch: Map<string, PlannedServer>;
  /** The names of those that are configured, by how they are reached, secrets as references. */
  readonly configured: ReadonlyMap<string, string>;
}

function isWanted(name: string, only: readonly string[] | undefined): boolean {
  return only === undefined || only.length === 0 || only.includes(name) || only.includes(normalizeServerName(name));
}

/** Plans a server, or says why not. */
async function planServer(
  server: ImportedServer,
  source: ImportSource,
  planned: PlannedServers,
  options: ImportPlanOptions,
): Promise<string | undefined> {
  if (server.entry === undefined) return server.unfit.join("; ");
  if (isOwnServer(server.entry, options.own)) return "it is Quartermaster itself";
  if (source.scope === "project" && !options.project)
    return "it came with this project, so others may have written it; look at it, then say --project";
  const entry = addProjectFolder(server.entry, source, options);
  const launch = toLaunchKey(entry);
  const same = planned.byLaunch.get(launch);
  if (same !== undefined) return `it is the same as ${same.name}, from ${same.client}`;
  for (const name of generateServerNames(normalizeServerName(server.name))) {
    if (planned.byName.has(name)) continue;
    const clean = await extractEntrySecrets(name, entry, planned, options);
    const configured = planned.configured.get(toLaunchKey(clean.entry));
    if (configured !== undefined) return `it is configured already, as ${configured}`;
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
  return "there are too many of that name";
}

/** Servers of a project are started in its folder, so paths in them are meant from there. */
function addProjectFolder(
  entry: ServerEntry,
  { scope }: ImportSource,
  { projectFolder }: ImportPlanOptions,
): ServerEntry {
  if (scope !== "project" || projectFolder === undefined || entry.command === undefined || entry.cwd !== undefined)
    return entry;
  return { ...entry, cwd: escapeReferences(projectFolder) };
}

function extractEntrySecrets(name: string, entry: ServerEntry, { byName }: PlannedServers, options: ImportPlanOptions) {
  const others = new Map(
    [...byName.values()].flatMap(({ secrets }) => secrets.map((secret) => [secret.name, secret.value])),
  );
  return extractSecrets(name, entry, options.judge, async (wanted, value) => {
    for (let number = 1; ; number++) {
      const candidate = number === 1 ? wanted : `${wanted}_${number}`;
      const stored = others.get(candidate) ?? (await options.storedSecret(candidate));
      // What is stored by that name and is something else stays as it is.
      if (stored !== undefined && stored !== value) continue;
      others.set(candidate, value);
      return candidate;
    }
  });
}

/** What makes two servers the same: how they are reached, not how they are called or described. */
function toLaunchKey({ command, args = [], env = {}, cwd, url, headers = {} }: LaunchFields): string {
  return canonicalJson(url === undefined ? [command, args, env, cwd ?? null] : [url, headers]);
}

function listUnsetVariables(entry: ServerEntry, env: ImportPlanOptions["env"]): readonly string[] {
  const referred = [...canonicalJson(entry).matchAll(/(?<!\$)\$\{env:(\w+)\}/g)].map(([, name = ""]) => name);
  return [...new Set(referred)].filter((name) => !env[name]).map((name) => `the variable ${name} is not set here`);
}
