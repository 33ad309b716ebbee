import type { Action, ArgumentTransform, JsonSchema } from "../core/action.ts";
import { frozenCopy, isRecord, type Json, type JsonObject } from "../core/json.ts";
import type { ArgumentForms } from "../core/normalize.ts";

/**
 * A resource with its target's promise filled in: invoking `rag_corpus__meetings` is invoking the recall operation
 * with the source already given, so schema, effect, approval and handler can only be that operation's.
 */
export function linkResource(resource: Action, target: Action): Action {
  const { transform } = resource.canonical ?? { transform: {} };
  return Object.freeze({
    ...resource,
    inputSchema: openSchema(target.inputSchema, transform),
    ...(target.outputSchema === undefined ? {} : { outputSchema: target.outputSchema }),
    effect: target.effect,
    ...(target.requiresApproval === undefined ? {} : { requiresApproval: target.requiresApproval }),
    idempotent: target.idempotent,
    ...(target.timeoutMs === undefined ? {} : { timeoutMs: target.timeoutMs }),
    ...(target.concurrency === undefined ? {} : { concurrency: target.concurrency }),
    ...normalizeOf(target.normalize, transform),
    ...(target.keepsTokens === undefined ? {} : { keepsTokens: target.keepsTokens }),
    tags: frozenCopy([...new Set([...resource.tags, ...target.tags])]),
    run: target.run,
  });
}

/** The target's normal forms, by what the caller's arguments are called. */
function normalizeOf(forms: ArgumentForms = {}, { wrap }: ArgumentTransform): Pick<Action, "normalize"> {
  const prefix = wrap === undefined ? "" : `${wrap}.`;
  const own = Object.entries(forms).filter(([argument]) => argument.startsWith(prefix));
  if (own.length === 0) return {};
  return { normalize: Object.fromEntries(own.map(([argument, form]) => [argument.slice(prefix.length), form])) };
}

/** The target's arguments for what a caller gave to the resource. */
export function transformArgs({ set, wrap }: ArgumentTransform, entry: string, args: JsonObject): JsonObject {
  const given = wrap === undefined ? args : { [wrap]: args };
  return { ...given, ...(fill(set ?? {}, entry) as JsonObject) };
}

function fill(value: Json, entry: string): Json {
  if (value === "$entry") return entry;
  if (Array.isArray(value)) return value.map((part) => fill(part, entry));
  if (isRecord(value))
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, fill(part as Json, entry)]));
  return value;
}

const open = new WeakMap<JsonSchema, Map<string, JsonSchema>>();

/** Of an operation that very many resources run, it is the same for all of them. */
function openSchema(schema: JsonSchema, transform: ArgumentTransform): JsonSchema {
  const key = JSON.stringify([transform.wrap, Object.keys(transform.set ?? {})]);
  const known = open.get(schema) ?? new Map<string, JsonSchema>();
  open.set(schema, known);
  const made = known.get(key) ?? frozenCopy(openPart(schema, transform));
  known.set(key, made);
  return made;
}

/** What of the target's schema is left for the caller to say. */
function openPart(schema: JsonSchema, { set, wrap }: ArgumentTransform): JsonSchema {
  const properties = isRecord(schema.properties) ? (schema.properties as JsonObject) : {};
  if (wrap !== undefined) {
    const inner = properties[wrap];
    return isRecord(inner) && inner.type === "object" ? (inner as JsonSchema) : { type: "object" };
  }
  const bound = new Set(Object.keys(set ?? {}));
  const required = Array.isArray(schema.required) ? schema.required.filter((key) => !bound.has(String(key))) : [];
  const { required: _all, ...rest } = schema;
  return {
    ...rest,
    properties: Object.fromEntries(Object.entries(properties).filter(([key]) => !bound.has(key))),
    ...(required.length > 0 ? { required } : {}),
  };
}
