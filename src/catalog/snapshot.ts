import type { Action, ArgumentTransform, JsonSchema } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { cloneFrozen, isRecord, type Json, type JsonObject } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import type { ArgumentForms } from "../core/normalize-arguments.ts";
import { createSpellingIndex, type SpellingIndex } from "./spelling.ts";

/**
 * A resource with its target's promise filled in: invoking `rag_corpus__meetings` is invoking the recall operation
 * with the source already given, so schema, effect, approval and handler can only be that operation's.
 */
function linkResource(resource: Action, target: Action): Action {
  const { transform } = resource.canonical ?? { transform: {} };
  return Object.freeze({
    ...resource,
    inputSchema: getOpenSchema(target.inputSchema, transform),
    ...(target.outputSchema === undefined ? {} : { outputSchema: target.outputSchema }),
    effect: target.effect,
    ...(target.requiresApproval === undefined ? {} : { requiresApproval: target.requiresApproval }),
    idempotent: target.idempotent,
    ...(target.timeoutMs === undefined ? {} : { timeoutMs: target.timeoutMs }),
    ...(target.concurrency === undefined ? {} : { concurrency: target.concurrency }),
    ...pickNormalForms(target.normalize, transform),
    ...(target.keepsTokens === undefined ? {} : { keepsTokens: target.keepsTokens }),
    tags: cloneFrozen([...new Set([...resource.tags, ...target.tags])]),
    run: target.run,
  });
}

/** The target's normal forms, by what the caller's arguments are called. */
function pickNormalForms(forms: ArgumentForms = {}, { wrap }: ArgumentTransform): Pick<Action, "normalize"> {
  const prefix = wrap === undefined ? "" : `${wrap}.`;
  const own = Object.entries(forms).filter(([argument]) => argument.startsWith(prefix));
  if (own.length === 0) return {};
  return { normalize: Object.fromEntries(own.map(([argument, form]) => [argument.slice(prefix.length), form])) };
}

/** The target's arguments for what a caller gave to the resource. */
export function transformArgs({ set, wrap }: ArgumentTransform, entry: string, args: JsonObject): JsonObject {
  const given = wrap === undefined ? args : { [wrap]: args };
  return { ...given, ...(fillEntry(set ?? {}, entry) as JsonObject) };
}

function fillEntry(value: Json, entry: string): Json {
  if (value === "$entry") return entry;
  if (Array.isArray(value)) return value.map((part) => fillEntry(part, entry));
  if (isRecord(value))
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, fillEntry(part as Json, entry)]));
  return value;
}

const openSchemas = new WeakMap<JsonSchema, Map<string, JsonSchema>>();

/** Of an operation that very many resources run, it is the same for all of them. */
function getOpenSchema(schema: JsonSchema, transform: ArgumentTransform): JsonSchema {
  const key = JSON.stringify([transform.wrap, Object.keys(transform.set ?? {})]);
  const known = openSchemas.get(schema) ?? new Map<string, JsonSchema>();
  openSchemas.set(schema, known);
  const made = known.get(key) ?? cloneFrozen(createOpenSchema(schema, transform));
  known.set(key, made);
  return made;
}

/** What of the target's schema is left for the caller to say. */
function createOpenSchema(schema: JsonSchema, { set, wrap }: ArgumentTransform): JsonSchema {
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

/** The catalog at one moment: never changes, so that everything read from it fits together. */
export interface CatalogSnapshot {
  readonly version: number;
  /** Sorted by name. */
  readonly actions: readonly Action[];
  readonly byCategory: ReadonlyMap<string, readonly Action[]>;
  readonly spellings: SpellingIndex;
  get(name: string): Action | undefined;
}

/** Takes what each provider listed. A resource whose operation is not there is left out and named in `unlinked`. */
export function takeSnapshot(
  version: number,
  lists: Iterable<readonly Action[]>,
): { readonly snapshot: CatalogSnapshot; readonly unlinked: readonly Action[] } {
  const listed = new Map<ActionName, Action>();
  for (const list of lists) for (const action of list) listed.set(action.name, action);
  const unlinked: Action[] = [];
  const linked = [...listed.values()].flatMap((action) => {
    if (action.canonical === undefined) return [action];
    const target = listed.get(action.canonical.target);
    if (target !== undefined && target.canonical === undefined) return [linkResource(action, target)];
    unlinked.push(action);
    return [];
  });
  const actions = Object.freeze(linked.sort((a, b) => (a.name < b.name ? -1 : 1)));
  const byName = new Map<string, Action>(actions.map((action) => [action.name, action]));
  const byCategory = groupActions(actions);
  let spellings: SpellingIndex | undefined;

  return {
    unlinked,
    snapshot: {
      version,
      actions,
      byCategory,
      // Only a misspelt name needs it, and it costs more than the rest of the snapshot.
      get spellings() {
        spellings ??= createSpellingIndex(actions);
        return spellings;
      },
      get: (name) => byName.get(name),
    },
  };
}

function groupActions(actions: readonly Action[]): ReadonlyMap<string, readonly Action[]> {
  const groups = new Map<string, Action[]>();
  for (const action of actions) {
    const group = groups.get(action.category);
    if (group === undefined) groups.set(action.category, [action]);
    else group.push(action);
  }
  return groups;
}

/** Resources that are too many, and too much somebody's own, to be in the catalog: they are there when they are named. */
export interface LiveResources {
  /** The resource of that name, whoever asks. Undefined: there is none. */
  find(name: string): Promise<Action | undefined> | undefined;
  /** Those of these categories that may be the caller's, the newest of them where there are very many. */
  list(caller: Caller, categories: readonly string[]): Promise<readonly Action[]>;
}

/** The catalog with some of them in it. One whose operation is not there is left out. */
export function addLiveResources(snapshot: CatalogSnapshot, live: readonly Action[]): CatalogSnapshot {
  const linked = live.flatMap((resource) => {
    const target = resource.canonical && snapshot.get(resource.canonical.target);
    return target === undefined ? [] : [linkResource(resource, target)];
  });
  const byName = new Map<string, Action>(linked.map((action) => [action.name, action]));
  let actions: readonly Action[] | undefined;
  let byCategory: CatalogSnapshot["byCategory"] | undefined;
  return {
    version: snapshot.version,
    // Most who ask want one by its name, and the catalog may be long.
    get actions() {
      actions ??= Object.freeze([...snapshot.actions, ...linked].sort((a, b) => (a.name < b.name ? -1 : 1)));
      return actions;
    },
    get byCategory() {
      byCategory ??= new Map([...snapshot.byCategory, ...groupActions(linked)]);
      return byCategory;
    },
    get spellings() {
      return snapshot.spellings;
    },
    get: (name) => byName.get(name) ?? snapshot.get(name),
  };
}
