import { open } from "node:fs/promises";
import { messageOf, QmError } from "../../core/errors.ts";
import { getOwn, isRecord } from "../../core/json.ts";
import { oneLine } from "../../core/plain-text.ts";
import type { Client, ClientFile, Raw, Scope } from "./client.ts";
import { clientNamed, clients } from "./clients.ts";
import { BYTE_LIMIT, decoded, parsed, unreadable, valueAt } from "./document.ts";
import { readEntry, type ServerEntry } from "./entry.ts";
import type { Surroundings } from "./surroundings.ts";
import type { AskedInput, Filling } from "./variables.ts";

const SERVER_LIMIT = 1000;

export interface ReadOptions extends Surroundings {
  /** The names of clients. Absent: all of them. */
  readonly only?: readonly string[];
}

/** A server as one client has it. */
export interface ImportedServer {
  /** What the client calls it. */
  readonly name: string;
  /** Absent: it cannot be brought along. */
  readonly entry?: ServerEntry;
  /** Why not. */
  readonly unfit: readonly string[];
  /** What whoever imports it should know. */
  readonly notes: readonly string[];
}

/** One list of servers that is there. */
export interface FoundList {
  readonly client: Client;
  readonly path: string;
  readonly scope: Scope;
  readonly part?: string;
  readonly servers: readonly ImportedServer[];
  /** Why the file, or a part of it, could not be read. */
  readonly problems: readonly string[];
}

/**
 * What clients on this machine have configured. A file that is broken is told of and loses only itself; one that is not
 * there is not told of. Nothing is started and nothing is filled in: secrets are where they were.
 */
export async function readClients({ only, ...around }: ReadOptions): Promise<{ readonly found: readonly FoundList[] }> {
  const wanted = only === undefined || only.length === 0 ? clients : [...new Set(only)].map(clientNamed);
  const found: FoundList[] = [];
  for (const client of wanted) {
    const seen = new Set<string>();
    for (const file of client.files(around)) {
      const list = await readList(client, file, around);
      // Two parts of one broken file are one broken file.
      if (list === undefined || (list.problems.length > 0 && seen.has(file.path))) continue;
      seen.add(file.path);
      found.push(list);
    }
  }
  return { found };
}

/** The bytes of a file that somebody else keeps. Undefined: it is not there. Throws `invalid_config`. */
export async function readBytes(path: string): Promise<Uint8Array | undefined> {
  try {
    const file = await open(path, "r");
    try {
      const stats = await file.stat();
      if (!stats.isFile()) throw unreadable("it is not a file");
      if (stats.size > BYTE_LIMIT) throw unreadable(`it has more than ${BYTE_LIMIT} bytes`);
      return await file.readFile();
    } finally {
      await file.close();
    }
  } catch (thrown) {
    const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw thrown instanceof QmError ? thrown : unreadable(typeof code === "string" ? code : messageOf(thrown));
  }
}

async function readList(client: Client, file: ClientFile, around: Surroundings): Promise<FoundList | undefined> {
  const { path, scope, keys, part } = file;
  const list = { client, path, scope, ...(part === undefined ? {} : { part }) };
  try {
    const bytes = await readBytes(path);
    if (bytes === undefined) return undefined;
    const document = parsed(decoded(bytes).text, client.format);
    const listed = valueAt(document, keys);
    if (listed === undefined || listed === null) return undefined;
    if (!isRecord(listed)) throw unreadable(`${keys.at(-1)} is not an object`);
    const entries = Object.entries(listed);
    const problems = entries.length > SERVER_LIMIT ? [`only the first ${SERVER_LIMIT} servers were read`] : [];
    const inputs = inputsOf(document);
    const servers = entries
      .slice(0, SERVER_LIMIT)
      .map(([name, raw]) => readServer(client, name, raw, { document, inputs, around }));
    return { ...list, servers, problems };
  } catch (thrown) {
    return { ...list, servers: [], problems: [oneLine(messageOf(thrown))] };
  }
}

interface Context {
  readonly document: Raw;
  readonly inputs: ReadonlyMap<string, AskedInput>;
  readonly around: Surroundings;
}

function readServer(client: Client, name: string, raw: unknown, { document, inputs, around }: Context): ImportedServer {
  const notes = new Set<string>();
  const unfit = new Set<string>();
  const filling: Filling = {
    forms: client.variables,
    home: around.home,
    folder: around.cwd,
    server: name,
    inputs,
    note: (text) => void notes.add(text),
    unfit: (why) => void unfit.add(why),
  };
  const { words } = client;
  const isOff = words.isOff?.(document, name) ?? false;
  if (!isRecord(raw)) unfit.add("it is not an object");
  const entry = isRecord(raw) ? readEntry(raw, { words, filling, isOff }) : undefined;
  return { name, ...(entry === undefined ? {} : { entry }), unfit: [...unfit], notes: [...notes] };
}

/** What VS Code asks for before it starts a server. */
function inputsOf(document: Raw): ReadonlyMap<string, AskedInput> {
  const inputs = getOwn(document, "inputs");
  const asked = new Map<string, AskedInput>();
  for (const input of Array.isArray(inputs) ? inputs : []) {
    if (!isRecord(input) || typeof input.id !== "string") continue;
    const fallback = typeof input.default === "string" ? { fallback: input.default } : {};
    asked.set(input.id, { isPassword: input.password === true, ...fallback });
  }
  return asked;
}
