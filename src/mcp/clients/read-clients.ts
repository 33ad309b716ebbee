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
import { type ClientDefinition, type ClientFile, clients, getClientDefinition, type RawEntry } from "./clients.ts";
import { readServerEntry, type ServerEntry } from "./server-entry.ts";
import type { PromptedInput, TranslationContext } from "./variables.ts";

export type OwnAddresses = { readonly bin: string; readonly urls: readonly string[] };

/** Whether an entry starts or addresses Quartermaster itself. A gateway behind itself would start itself forever. */
export function isOwnServer({ command, args = [], url }: ServerEntry, own: OwnAddresses): boolean {
  const urls = own.urls.map(normalizeUrl);
  if (url !== undefined) return urls.includes(normalizeUrl(url));
  const words = [command ?? "", ...args];
  // Look at all words: `cmd /c`, `npx`, `env` and bridges have the program as an argument.
  return words.some((word, at) => {
    if (urls.includes(normalizeUrl(word)) || word === own.bin) return true;
    const program = (word.split(/[\\/]/).at(-1) ?? "").replace(/\.(?:cmd|exe|ps1)$/i, "");
    const isPackage = /^quartermaster(?:@[\w.^~*-]+)?$/.test(word) && at > 0;
    const isProgram = /^(?:qm|quartermaster)$/.test(program) || /(?:^|[\\/])dist[\\/]bin[\\/]qm\.js$/.test(word);
    return isPackage || (isProgram && words.slice(at + 1).includes("mcp"));
  });
}

/** Ignores the case and aliases of the host, a trailing slash, query and fragment. */
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

export interface ImportedServer {
  /** The name in the client. */
  readonly name: string;
  /** Absent if the server cannot be imported. */
  readonly entry?: ServerEntry;
  readonly unfit: readonly string[];
  readonly notes: readonly string[];
}

export interface ClientServerList extends Omit<ClientFile, "keys"> {
  readonly client: ClientDefinition;
  readonly servers: readonly ImportedServer[];
  readonly problems: readonly string[];
}

/**
 * Reads the server lists of the clients on this machine, or only of those named. A broken file is reported and affects
 * only itself. Nothing is started and no secret is resolved.
 */
export async function readClients({ only = [], ...around }: ClientEnvironment & { readonly only?: readonly string[] }) {
  const wanted = only.length === 0 ? clients : [...new Set(only)].map(getClientDefinition);
  const found: ClientServerList[] = [];
  for (const client of wanted) {
    const seen = new Set<string>();
    for (const file of client.files(around)) {
      const list = await readList(client, file, around);
      // Report a broken file once, although two parts of it are read.
      if (list === undefined || (list.problems.length > 0 && seen.has(file.path))) continue;
      seen.add(file.path);
      found.push(list);
    }
  }
  return { found };
}

/** Undefined if the file does not exist. Throws `invalid_config`. */
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
    if (thrown instanceof QmError) throw thrown;
    throw createUnreadableError(typeof code === "string" ? code : getErrorMessage(thrown));
  }
}

async function readList(client: ClientDefinition, { keys, ...file }: ClientFile, around: ClientEnvironment) {
  const list = { client, ...file };
  try {
    const bytes = await readClientFile(file.path);
    if (bytes === undefined) return undefined;
    const document = parseClientDocument(decodeClientText(bytes).text, client.format);
    const listed = getDocumentValue(document, keys);
    if (listed === undefined || listed === null) return undefined;
    if (!isRecord(listed)) throw createUnreadableError(`${keys.at(-1)} is not an object`);
    const entries = Object.entries(listed);
    const problems = entries.length > SERVER_LIMIT ? [`only the first ${SERVER_LIMIT} servers were read`] : [];
    const inputs = readPromptedInputs(document);
    const context = { document, inputs, around };
    const servers = entries.slice(0, SERVER_LIMIT).map(([name, raw]) => readServer(client, name, raw, context));
    return { ...list, servers, problems };
  } catch (thrown) {
    return { ...list, servers: [], problems: [toOneLine(getErrorMessage(thrown))] };
  }
}

type ReadContext = { document: RawEntry; inputs: ReadonlyMap<string, PromptedInput>; around: ClientEnvironment };

function readServer(client: ClientDefinition, name: string, raw: unknown, context: ReadContext): ImportedServer {
  const { document, inputs, around } = context;
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

/** The inputs that VS Code asks for before it starts a server. */
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
