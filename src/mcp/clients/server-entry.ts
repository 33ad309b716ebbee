import { getOwn, isRecord, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { resolveClientPath } from "./client-paths.ts";
import type { EntryKeys, RawEntry } from "./clients.ts";
import { type TranslationContext, translateVariables } from "./variables.ts";

/** `key` is the key of the command or URL. */
type EntryTransport = { readonly kind: "stdio" | "http"; readonly key: string };

/** The values of `type` in all clients. */
const TRANSPORT_NAMES: Readonly<Record<string, "stdio" | "http" | "sse" | "ws">> = {
  stdio: "stdio",
  local: "stdio",
  http: "http",
  remote: "http",
  streamablehttp: "http",
  sse: "sse",
  ws: "ws",
  websocket: "ws",
};

/** Returns why a transport is not supported. */
function detectTransport(raw: RawEntry, words: EntryKeys): EntryTransport | string {
  const said = getOwn(raw, "type") ?? getOwn(raw, "transportType");
  const type = typeof said === "string" ? said.toLowerCase().replaceAll(/[-_]/g, "") : "";
  const transport = getOwn(TRANSPORT_NAMES, type);
  if (said !== undefined && transport === undefined) return `unknown type ${quoteName(String(said))}`;
  const hasText = (key: string): boolean => readText(raw, key) !== undefined;
  const http = words.http.find(hasText);
  const older = (words.sse ?? []).find(hasText);
  const inferred = hasText("command") ? "stdio" : http !== undefined ? "http" : older && "sse";
  const kind = transport ?? inferred;
  if (kind === "sse") return "it uses the deprecated SSE transport; ask its publisher for a Streamable HTTP URL";
  if (kind === "ws") return "it uses WebSocket, which is not an MCP transport";
  if (kind === "stdio" && hasText("command")) return { kind, key: "command" };
  const key = http ?? older;
  return kind === "http" && key !== undefined ? { kind, key } : "it has neither a command nor a URL";
}

/** A server as in `quartermaster.yaml`. Texts may contain references. */
export type ServerEntry = {
  readonly command?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly oauth?: {
    readonly client_id?: string;
    readonly client_secret?: string;
    readonly scopes?: readonly string[];
    readonly callback_port?: number;
  };
  readonly enabled?: boolean;
  readonly description?: string;
  readonly start_timeout_ms?: number;
  readonly call_timeout_ms?: number;
  readonly tools?: Readonly<Record<string, { readonly enabled: boolean }>>;
};

type ReadEntryOptions = { readonly words: EntryKeys; readonly filling: TranslationContext; readonly isOff: boolean };
type TextRecord = Readonly<Record<string, string>>;

/**
 * Translates one entry. `isOff` tells that another part of the file disables it. Undefined if the server cannot be
 * imported, after `filling.reject`.
 */
export function readServerEntry(given: RawEntry, { words, filling, isOff }: ReadEntryOptions): ServerEntry | undefined {
  let isFit = true;
  const context: TranslationContext = {
    ...filling,
    reject(why) {
      isFit = false;
      filling.reject(why);
    },
  };
  const { raw, env = {}, headers = {}, unfit } = words.adapt?.(given) ?? { raw: given };
  const kind = unfit ?? detectTransport(raw, words);
  if (typeof kind === "string") {
    filling.reject(kind);
    return undefined;
  }
  const isSwitchedOff = isOff || readOptional(raw, words.off) === true || readOptional(raw, words.on) === false;
  const description = readText(raw, "description");
  const entry: ServerEntry = {
    ...(kind.kind === "stdio" ? readStdio(raw, words, context, env) : readHttp(raw, kind.key, words, context, headers)),
    ...(isSwitchedOff ? { enabled: false } : {}),
    // A description holds no references, and `${` would be rejected.
    ...(description === undefined || description.includes("${") ? {} : { description }),
    ...readTimeouts(raw, words, context),
    ...readToolFilter(raw, words, context),
  };
  noteUnknownKeys(raw, words, kind, context);
  return isFit ? entry : undefined;
}

function readStdio(raw: RawEntry, words: EntryKeys, filling: TranslationContext, env: TextRecord): ServerEntry {
  const given = getOwn(raw, "args") ?? [];
  if (!Array.isArray(given)) filling.reject("its arguments are not a list");
  const items: unknown[] = Array.isArray(given) ? given : [];
  const args = items.map((value, at) => translateValue(value, `argument ${at + 1}`, filling));
  const variables = { ...readTextRecord(raw, words.env ?? "env", filling), ...env };
  const cwd = readText(raw, "cwd");
  return {
    command: translateVariables(readText(raw, "command") ?? "", "command", filling),
    ...(args.length === 0 ? {} : { args }),
    ...(Object.keys(variables).length === 0 ? {} : { env: variables }),
    ...(cwd === undefined ? {} : { cwd: resolveClientPath(filling.folder, translateVariables(cwd, "cwd", filling)) }),
  };
}

function readHttp(raw: RawEntry, key: string, words: EntryKeys, filling: TranslationContext, headers: TextRecord) {
  const url = translateVariables(readText(raw, key) ?? "", key, filling);
  if (!/^(?:https?:\/\/|\$\{)/i.test(url)) filling.reject("its URL is not http or https");
  const all = { ...readTextRecord(raw, words.headers ?? "headers", filling), ...headers };
  return { url, ...(Object.keys(all).length === 0 ? {} : { headers: all }), ...readOAuth(raw, words, filling) };
}

function readTextRecord(raw: RawEntry, key: string, filling: TranslationContext): TextRecord {
  const given = getOwn(raw, key) ?? {};
  if (!isRecord(given)) {
    filling.reject(`${key} is not an object`);
    return {};
  }
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, translateValue(value, name, filling)]));
}

/** Numbers and booleans are often written without quotes. */
function translateValue(value: unknown, key: string, filling: TranslationContext): string {
  if (typeof value === "string") return translateVariables(value, key, filling);
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  filling.reject(`${quoteName(key)} is not text`);
  return "";
}

function noteUnknownKeys(raw: RawEntry, words: EntryKeys, kind: EntryTransport, { note }: TranslationContext): void {
  const known = new Set([
    ...["command", "args", "cwd", "description", "name", words.env ?? "env", words.headers ?? "headers"],
    ...[words.off, words.on, words.onlyTools, words.withoutTools, words.oauth?.key],
    ...[...words.http, ...(words.sse ?? []), ...Object.keys(words.timeouts ?? {}), ...(words.ignored ?? [])],
  ]);
  const unknown = Object.keys(raw).filter((key) => !known.has(key));
  if (unknown.length > 0) note(`not imported: ${unknown.slice(0, 10).map(quoteName).join(", ")}`);
  const lost = kind.kind === "stdio" ? [] : ["command", "args", "cwd", words.env ?? "env"];
  const meaningless = lost.filter((key) => getOwn(raw, key) !== undefined);
  if (meaningless.length > 0) note(`ignored for a remote server: ${meaningless.join(", ")}`);
}

function readText(raw: RawEntry, key: string): string | undefined {
  const value = getOwn(raw, key);
  return typeof value === "string" && value !== "" ? value : undefined;
}

const readOptional = (raw: RawEntry, key?: string): unknown => (key === undefined ? undefined : getOwn(raw, key));

const DAY_MS = 24 * 60 * 60 * 1000;

/** Timeouts in milliseconds, within our limits. */
function readTimeouts(raw: RawEntry, { timeouts: times = {} }: EntryKeys, { note }: TranslationContext): ServerEntry {
  const found: { start_timeout_ms?: number; call_timeout_ms?: number } = {};
  for (const [key, { to, ms }] of Object.entries(times)) {
    const value = getOwn(raw, key);
    if (value === undefined) continue;
    const time = typeof value === "number" ? Math.round(value * ms) : Number.NaN;
    if (time >= 1000 && time <= DAY_MS) found[to] = time;
    else note(`${key} was ignored: it is not between one second and one day`);
  }
  return found;
}

/** The last matching entry decides about a tool. */
function readToolFilter(raw: RawEntry, words: EntryKeys, context: TranslationContext): ServerEntry {
  const only = readNames(raw, words.onlyTools, context);
  const without = readNames(raw, words.withoutTools, context);
  if (only === undefined && without === undefined) return {};
  const choices = [
    ...(only === undefined ? [] : [["*", false] as const, ...only.map((name) => [name, true] as const)]),
    ...(without ?? []).map((name) => [name, false] as const),
  ];
  const tools = new Map<string, { readonly enabled: boolean }>();
  for (const [name, enabled] of choices) {
    tools.delete(name);
    tools.set(name, { enabled });
  }
  return tools.size === 0 ? {} : { tools: Object.fromEntries(tools) };
}

function readNames(raw: RawEntry, key: string | undefined, { note }: TranslationContext): string[] | undefined {
  const value = readOptional(raw, key);
  if (value === undefined) return undefined;
  // An object would move a numeric key to the front.
  const isName = (each: unknown): each is string =>
    typeof each === "string" && each !== "" && !/^\d+$/.test(each) && !/[*?[\]{}!\\]/.test(each);
  if (Array.isArray(value) && value.every(isName)) return value;
  note(`${key} was ignored: it is not a list of names`);
  return undefined;
}

function readOAuth(raw: RawEntry, { oauth: words }: EntryKeys, filling: TranslationContext): ServerEntry {
  const given = words === undefined ? undefined : getOwn(raw, words.key);
  if (words === undefined || given === undefined || given === null) return {};
  if (!isRecord(given)) {
    filling.note(`${words.key} was ignored: it is not an object`);
    return {};
  }
  const text = (key = "") => {
    const value = readText(given, key);
    return value === undefined ? undefined : translateVariables(value, key, filling);
  };
  const scopes = readScopes(readOptional(given, words.scopes));
  const port = readOptional(given, words.callbackPort);
  const oauth = omitUndefined({
    client_id: text(words.clientId),
    client_secret: words.clientSecret === undefined ? undefined : text(words.clientSecret),
    ...(scopes.length === 0 ? {} : { scopes }),
    ...(typeof port === "number" && Number.isInteger(port) && port > 0 && port < 65_536 ? { callback_port: port } : {}),
  });
  return Object.keys(oauth).length === 0 ? {} : { oauth };
}

/** A list, or one text separated by spaces. */
function readScopes(value: unknown): readonly string[] {
  if (typeof value === "string") return value.split(/\s+/).filter((scope) => scope !== "");
  return Array.isArray(value) ? value.filter((scope) => typeof scope === "string" && scope !== "") : [];
}
