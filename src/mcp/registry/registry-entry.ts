import { isRecord, type JsonObject, outgrows } from "../../core/json.ts";
import { parseServerJson, type ServerJson } from "./server-json.ts";

/** One version of a server, as a registry describes it. */
export interface RegistryEntry {
  readonly server: ServerJson;
  /** The registry's word: `active`, `deprecated`, `deleted`. One that says nothing is taken for `active`. */
  readonly status: string;
  readonly statusMessage?: string;
  /** By the registry's clock. */
  readonly updatedAt?: string;
  /** The answer as it came. */
  readonly raw: JsonObject;
}

export type ParsedEntry =
  | { readonly ok: true; readonly entry: RegistryEntry }
  | { readonly ok: false; readonly name?: string; readonly problem: string };

/** What an entry may hold before nobody would read it any more. */
const LIMITS = { nodes: 20_000, depth: 32 };
const OFFICIAL = "io.modelcontextprotocol.registry/official";

/** Reads one element of a registry's answer: `{server, _meta}`, or a bare server.json as old dumps have it. */
export function parseEntry(raw: unknown): ParsedEntry {
  if (!isRecord(raw)) return { ok: false, problem: "it is not an object" };
  if (outgrows(raw, LIMITS)) return { ok: false, problem: "it is too large or too deep" };
  const inner = isRecord(raw.server) ? raw.server : raw;
  const parsed = parseServerJson(inner);
  if (!parsed.ok)
    return { ok: false, problem: parsed.problem, ...(typeof inner.name === "string" ? { name: inner.name } : {}) };
  const meta = isRecord(raw._meta) ? raw._meta : {};
  const official = isRecord(meta[OFFICIAL]) ? meta[OFFICIAL] : {};
  const status = textIn(official, "status") ?? textIn(inner, "status") ?? "active";
  const statusMessage = textIn(official, "statusMessage", "status_message");
  const updatedAt = textIn(official, "updatedAt", "updated_at");
  return {
    ok: true,
    entry: {
      server: parsed.server,
      status,
      ...(statusMessage === undefined ? {} : { statusMessage }),
      ...(updatedAt === undefined ? {} : { updatedAt }),
      raw: raw as JsonObject,
    },
  };
}

function textIn(record: Record<string, unknown>, ...keys: readonly string[]): string | undefined {
  const found = keys.map((key) => record[key]).find((value) => typeof value === "string");
  return typeof found === "string" ? found : undefined;
}
