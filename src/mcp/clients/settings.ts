import { getOwn, isRecord } from "../../core/json.ts";
import type { Raw, Words } from "./client.ts";
import type { ServerEntry } from "./entry.ts";
import { type Filling, translated } from "./variables.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** How long a server may take, in our unit and within our bounds. */
export function timesOf(raw: Raw, { times = {} }: Words, { note }: Filling): ServerEntry {
  const found: { start_timeout_ms?: number; call_timeout_ms?: number } = {};
  for (const [key, { to, ms }] of Object.entries(times)) {
    const value = getOwn(raw, key);
    if (value === undefined) continue;
    const time = typeof value === "number" ? Math.round(value * ms) : Number.NaN;
    if (time >= 1000 && time <= DAY_MS) found[to] = time;
    else note(`${key} was left out: it is not a time from one second to one day`);
  }
  return found;
}

/** Which tools are offered. Of the entries that fit a tool the last one counts. */
export function toolsOf(raw: Raw, { onlyTools, withoutTools }: Words, { note }: Filling): ServerEntry {
  const only = namesOf(raw, onlyTools, note);
  const without = namesOf(raw, withoutTools, note);
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

function namesOf(raw: Raw, key: string | undefined, note: Filling["note"]): readonly string[] | undefined {
  const value = key === undefined ? undefined : getOwn(raw, key);
  if (value === undefined) return undefined;
  // A digit would come first in an object, wherever it was put.
  const isName = (each: unknown): each is string =>
    typeof each === "string" && each !== "" && !/^\d+$/.test(each) && !/[*?[\]{}!\\]/.test(each);
  if (Array.isArray(value) && value.every(isName)) return value;
  note(`${key} was left out: it is not a list of names`);
  return undefined;
}

export function oauthOf(raw: Raw, { oauth: words }: Words, filling: Filling): ServerEntry {
  const given = words === undefined ? undefined : getOwn(raw, words.key);
  if (words === undefined || given === undefined || given === null) return {};
  if (!isRecord(given)) {
    filling.note(`${words.key} was left out: it is not an object`);
    return {};
  }
  const part = (key: string | undefined) => (key === undefined ? undefined : getOwn(given, key));
  const text = (key: string | undefined) => {
    const value = part(key);
    return typeof value === "string" && value !== "" ? translated(value, key ?? "", filling) : undefined;
  };
  const [id, secret] = [text(words.clientId), text(words.clientSecret)];
  const scopes = scopesOf(part(words.scopes));
  const port = part(words.callbackPort);
  const oauth = {
    ...(id === undefined ? {} : { client_id: id }),
    ...(secret === undefined ? {} : { client_secret: secret }),
    ...(scopes.length === 0 ? {} : { scopes }),
    ...(typeof port === "number" && Number.isInteger(port) && port > 0 && port < 65_536 ? { callback_port: port } : {}),
  };
  return Object.keys(oauth).length === 0 ? {} : { oauth };
}

/** A list, or one text with spaces between. */
function scopesOf(value: unknown): readonly string[] {
  if (typeof value === "string") return value.split(/\s+/).filter((scope) => scope !== "");
  return Array.isArray(value) ? value.filter((scope) => typeof scope === "string" && scope !== "") : [];
}
