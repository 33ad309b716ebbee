import { open } from "node:fs/promises";
import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { getOwn, isRecord } from "../../core/json.ts";
import {
  CLIENT_FILE_LIMIT,
  createUnreadableError,
  decodeClientText,
  getDocumentValue,
  parseClientDocument,
} from "./client-document.ts";
import type { ClientEnvironment } from "./client-paths.ts";
import type { ClientDefinition, ClientFile, ClientScope, RawEntry } from "./clients.ts";
import { clients, getClientDefinition } from "./clients.ts";
import { readServerEntry, type ServerEntry } from "./server-entry.ts";
import type { PromptedInput, TranslationContext } from "./variables.ts";

const OUR_NAMES = /^(?:qm|quartermaster)$/;
const OUR_PACKAGE = /^quartermaster(?:@[\w.^~*-]+)?$/;
const OUR_BIN = /(?:^|[\\/])dist[\\/]bin[\\/]qm\.js$/;

/** How this installation can be reached. */
export interface OwnAddresses {
  /** The file that is the program. */
  readonly bin: string;
  /** Of the gateway. */
  readonly urls: readonly string[];
}

/**
 * Whether an entry is Quartermaster itself, started or addressed. A gateway that is its own server would start itself
 * until the machine gives in.
 */
export function isOwnServer({ command, args = [], url }: ServerEntry, own: OwnAddresses): boolean {
  const urls = own.urls.map(normalizeUrl);
  if (url !== undefined) return urls.includes(normalizeUrl(url));
  const words = [command ?? "", ...args];
  // Not only the command: `cmd /c`, `npx`, `env` and bridges for remote servers have the rest as arguments.
  return words.some((word, at) => {
    if (urls.includes(normalizeUrl(word)) || word === own.bin) return true;
    const program = (word.split(/[\\/]/).at(-1) ?? "").replace(/\.(?:cmd|exe|ps1)$/i, "");
    const isPackage = OUR_PACKAGE.test(word) && at > 0;
    const isProgram = OUR_NAMES.test(program) || OUR_BIN.test(word);
    return isPackage || (isProgram && words.slice(at + 1).includes("mcp"));
  });
}

/** Without what makes no difference: case of the host, its other name, a slash at the end, what follows the path. */
function normalizeUrl(url: string): string {
  try {
    const { protocol, hostname, port, pathname } = new URL(url);
    const host = ["localhost", "[::1]", "0.0.0.0"].includes(hostname) ? "127.0.0.1" : hostname;
    return `${protocol}//${host}:${port}${pathname.replace(/\/+$/, "")}`;
  } catch {
    return url;
  }
}

const SERVER_LIMIT = 1000;

interface ReadClientsOptions extends ClientEnvironment {
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
export interface ClientServerList {
  readonly client: ClientDefinition;
  readonly path: string;
  readonly scope: ClientScope;
  readonly part?: string;
  readonly servers: readonly ImportedServer[];
  /** Why the file, or a part of it, could not be read. */
  readonly problems: readonly string[];
}

/**
 * What clients on this machine have configured. A file that is broken is told of and loses only itself; one that is not
 * there is not told of. Nothing is started and nothing is filled in: secrets are where they were.
 */
export async function readClients({
  only,
  ...around
}: ReadClientsOptions): Promise<{ readonly found: readonly ClientServerList[] }> {
  const wanted = only === undefined || only.length === 0 ? clients : [...new Set(only)].map(getClientDefinition);
  const found: ClientServerList[] = [];
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
export async function readClientFile(path: string): Promise<Uint8Array | undefined> {
  try {
    const file = await open(path, "r");
    try {
      const stats = await file.stat();
      if (!stats.isFile()) throw createUnreadableError("it is not a file");
      if (stats.size > CLIENT_FILE_LIMIT) throw createUnreadableError(`it has more than ${CLIENT_FILE_LIMIT} bytes`);
      return await file.readFile();
    } finally {
      await file.close();
    }
  } catch (thrown) {
    const code = thrown instanceof Error && "code" in thrown ? thrown.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw thrown instanceof QmError
      ? thrown
      : createUnreadableError(typeof code === "string" ? code : getErrorMessage(thrown));
  }
}

async function readList(
  client: ClientDefinition,
  file: ClientFile,
  around: ClientEnvironment,
): Promise<ClientServerList | undefined> {
  const { path, scope, keys, part } = file;
  const list = { client, path, scope, ...(part === undefined ? {} : { part }) };
  try {
    const bytes = await readClientFile(path);
    if (bytes === undefined) return undefined;
    const document = parseClientDocument(decodeClientText(bytes).text, client.format);
    const listed = getDocumentValue(document, keys);
    if (listed === undefined || listed === null) return undefined;
    if (!isRecord(listed)) throw createUnreadableError(`${keys.at(-1)} is not an object`);
    const entries = Object.entries(listed);
    const problems = entries.length > SERVER_LIMIT ? [`only the first ${SERVER_LIMIT} servers were read`] : [];
    const inputs = readPromptedInputs(document);
    const servers = entries
      .slice(0, SERVER_LIMIT)
      .map(([name, raw]) => readServer(client, name, raw, { document, inputs, around }));
    return { ...list, servers, problems };
  } catch (thrown) {
    return { ...list, servers: [], problems: [toOneLine(getErrorMessage(thrown))] };
  }
}

interface ReadContext {
  readonly document: RawEntry;
  readonly inputs: ReadonlyMap<string, PromptedInput>;
  readonly around: ClientEnvironment;
}

function readServer(
  client: ClientDefinition,
  name: string,
  raw: unknown,
  { document, inputs, around }: ReadContext,
): ImportedServer {
  const notes = new Set<string>();
  const unfit = new Set<string>();
  const filling: TranslationContext = {
    forms: client.variables,
    home: around.home,
    folder: around.cwd,
    server: name,
    inputs,
    note: (text) => void notes.add(text),
    reject: (why) => void unfit.add(why),
  };
  const { entryKeys: words } = client;
  const isOff = words.isOff?.(document, name) ?? false;
  if (!isRecord(raw)) unfit.add("it is not an object");
  const entry = isRecord(raw) ? readServerEntry(raw, { words, filling, isOff }) : undefined;
  return { name, ...(entry === undefined ? {} : { entry }), unfit: [...unfit], notes: [...notes] };
}

/** What VS Code asks for before it starts a server. */
function readPromptedInputs(document: RawEntry): ReadonlyMap<string, PromptedInput> {
  const inputs = getOwn(document, "inputs");
  const asked = new Map<string, PromptedInput>();
  for (const input of Array.isArray(inputs) ? inputs : []) {
    if (!isRecord(input) || typeof input.id !== "string") continue;
    const fallback = typeof input.default === "string" ? { fallback: input.default } : {};
    asked.set(input.id, { isPassword: input.password === true, ...fallback });
  }
  return asked;
}
