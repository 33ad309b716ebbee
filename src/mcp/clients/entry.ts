import { getOwn, isRecord } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import type { Raw, Words } from "./client.ts";
import { type Kind, kindOf } from "./kind.ts";
import { oauthOf, timesOf, toolsOf } from "./settings.ts";
import { resolvedIn } from "./surroundings.ts";
import { type Filling, translated } from "./variables.ts";

/** A server in the words of our configuration file. Every text may hold references. */
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

export interface ReadingEntry {
  readonly words: Words;
  readonly filling: Filling;
  /** Whether the rest of the file switches it off. */
  readonly isOff: boolean;
}

/** One entry of a client's file. What cannot be brought along is told to `filling.unfit`; then the answer is nothing. */
export function readEntry(given: Raw, { words, filling, isOff }: ReadingEntry): ServerEntry | undefined {
  let isFit = true;
  const told: Filling = {
    ...filling,
    unfit(why) {
      isFit = false;
      filling.unfit(why);
    },
  };
  const { raw, env = {}, headers = {}, unfit } = words.adapt?.(given) ?? { raw: given };
  if (unfit !== undefined) told.unfit(unfit);
  const kind = unfit === undefined ? kindOf(raw, words, told) : undefined;
  if (kind === undefined) return undefined;
  const isSwitchedOff = isOff || wordOf(raw, words.off) === true || wordOf(raw, words.on) === false;
  const description = textOf(raw, "description");
  const entry: ServerEntry = {
    ...(kind.kind === "stdio" ? stdioOf(raw, words, told, env) : httpOf(raw, kind, words, told, headers)),
    ...(isSwitchedOff ? { enabled: false } : {}),
    // Nothing is filled into it, so what could pass for a reference would be refused.
    ...(description === undefined || description.includes("${") ? {} : { description }),
    ...timesOf(raw, words, told),
    ...toolsOf(raw, words, told),
  };
  tellUnknown(raw, words, kind, told);
  return isFit ? entry : undefined;
}

function stdioOf(raw: Raw, words: Words, filling: Filling, env: Readonly<Record<string, string>>): ServerEntry {
  const command = textOf(raw, "command") ?? "";
  const given = getOwn(raw, "args") ?? [];
  if (!Array.isArray(given)) filling.unfit("its arguments are not a list");
  const args = (Array.isArray(given) ? given : []).map((value, at) => valueText(value, `argument ${at + 1}`, filling));
  const variables = { ...recordOf(raw, words.env ?? "env", filling), ...env };
  const cwd = textOf(raw, "cwd");
  return {
    command: translated(command, "command", filling),
    ...(args.length === 0 ? {} : { args }),
    ...(Object.keys(variables).length === 0 ? {} : { env: variables }),
    ...(cwd === undefined ? {} : { cwd: resolvedIn(filling.folder, translated(cwd, "cwd", filling)) }),
  };
}

function httpOf(
  raw: Raw,
  { key }: Kind,
  words: Words,
  filling: Filling,
  headers: Readonly<Record<string, string>>,
): ServerEntry {
  const url = translated(textOf(raw, key) ?? "", key, filling);
  if (!/^(?:https?:\/\/|\$\{)/i.test(url)) filling.unfit("its address is not one of http or https");
  const all = { ...recordOf(raw, words.headers ?? "headers", filling), ...headers };
  return {
    url,
    ...(Object.keys(all).length === 0 ? {} : { headers: all }),
    ...oauthOf(raw, words, filling),
  };
}

function recordOf(raw: Raw, key: string, filling: Filling): Readonly<Record<string, string>> {
  const given = getOwn(raw, key) ?? {};
  if (!isRecord(given)) {
    filling.unfit(`${key} is not an object`);
    return {};
  }
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, valueText(value, name, filling)]));
}

/** Numbers and switches are often written without quotes. */
function valueText(value: unknown, key: string, filling: Filling): string {
  if (typeof value === "string") return translated(value, key, filling);
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  filling.unfit(`${quoted(key)} is not text`);
  return "";
}

const EVERYWHERE = ["command", "args", "cwd", "description", "name"];

function tellUnknown(raw: Raw, words: Words, kind: Kind, { note }: Filling): void {
  const known = new Set([
    ...EVERYWHERE,
    ...words.http,
    ...(words.sse ?? []),
    ...Object.keys(words.times ?? {}),
    ...(words.silent ?? []),
    ...[words.env ?? "env", words.headers ?? "headers", words.off, words.on, words.onlyTools, words.withoutTools],
    words.oauth?.key,
  ]);
  const unknown = Object.keys(raw).filter((key) => !known.has(key));
  if (unknown.length > 0) note(`not brought along: ${unknown.slice(0, 10).map(quoted).join(", ")}`);
  const lost = kind.kind === "stdio" ? [] : ["command", "args", "cwd", words.env ?? "env"];
  const meaningless = lost.filter((key) => getOwn(raw, key) !== undefined);
  if (meaningless.length > 0) note(`means nothing for a remote server: ${meaningless.join(", ")}`);
}

function textOf(raw: Raw, key: string): string | undefined {
  const value = getOwn(raw, key);
  return typeof value === "string" && value !== "" ? value : undefined;
}

function wordOf(raw: Raw, key: string | undefined): unknown {
  return key === undefined ? undefined : getOwn(raw, key);
}
