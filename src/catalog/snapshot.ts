import type { Action, ArgumentTransform, JsonSchema } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { cloneFrozen, isRecord, type Json, type JsonObject, omitUndefined } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import type { ArgumentForms } from "../core/normalize-arguments.ts";
import type { PendingSource } from "./define-action.ts";
import { createSpellingIndex, followRedirect, type SpellingIndex } from "./spelling.ts";

/** The catalog at one moment. It never changes. */
export interface CatalogSnapshot {
  readonly version: number;
  /** Sorted by name. */
  readonly actions: readonly Action[];
  readonly byCategory: ReadonlyMap<string, readonly Action[]>;
  /** The `capability` of each category's provider. Includes categories without actions. */
  readonly capabilities: ReadonlyMap<string, string>;
  readonly spellings: SpellingIndex;
  /** The sources whose actions are not known yet. */
  readonly pending: readonly PendingSource[];
  get(name: string): Action | undefined;
}

/** Links resources to their operations. A resource whose operation is missing is left out and listed in `unlinked`. */
export function takeSnapshot(
  version: number,
  lists: Iterable<readonly Action[]>,
  pending: readonly PendingSource[] = [],
  capabilities: CatalogSnapshot["capabilities"] = new Map(),
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
  let spellings: SpellingIndex | undefined;
  return {
    unlinked,
    snapshot: {
      version,
      actions,
      byCategory: groupActions(actions),
      capabilities,
      pending,
      // Lazy: only a misspelt name needs it, and it costs more than the rest of the snapshot.
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

export type LiveCategory = { readonly name: string; readonly target: ActionName };

/** Resources outside the catalog, such as notes: too many, and private to their owners. They are resolved by name. */
export interface LiveResources {
  /**
   * The resource that the caller means by this name. Does not check whether the caller may use it. Undefined at once for
   * a name that cannot be one of them.
   */
  find(name: string, caller: Caller): Promise<Action | undefined> | undefined;
  /** The caller's resources in these categories; only the newest if there are very many. */
  list(caller: Caller, categories: readonly string[]): Promise<readonly Action[]>;
  /** The categories that the caller may have resources in, sorted, and the operation that these run. */
  categories(caller: Caller): readonly LiveCategory[];
}

/** The resources of several sources, which have different categories. */
export const joinLiveResources = (sources: readonly LiveResources[]): LiveResources => ({
  find(name, caller) {
    const named = followRedirect(name);
    for (const source of sources) {
      const found = source.find(named, caller);
      if (found !== undefined) return found;
    }
    return undefined;
  },
  list: async (caller, categories) =>
    (await Promise.all(sources.map((source) => source.list(caller, categories)))).flat(),
  categories: (caller) =>
    sources.flatMap((source) => source.categories(caller)).sort((a, b) => (a.name < b.name ? -1 : 1)),
});

/** Leaves out a resource whose operation is missing. */
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
    capabilities: snapshot.capabilities,
    pending: snapshot.pending,
    // Lazy: most callers look up one name, and the catalog may be long.
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

/** Gives a resource its target's schema, effect, approval and handler, with the source filled in. */
function linkResource(resource: Action, target: Action): Action {
  const { transform } = resource.canonical ?? { transform: {} };
  const { effect, idempotent, outputSchema, requiresApproval, timeoutMs, concurrency, keepsTokens } = target;
  return Object.freeze({
    ...resource,
    inputSchema: getOpenSchema(target.inputSchema, transform),
    effect,
    idempotent,
    ...omitUndefined({ outputSchema, requiresApproval, timeoutMs, concurrency, keepsTokens }),
    ...pickNormalForms(target.normalize, transform),
    ...(target.runsAction && { runsAction: HIDDEN_CHOICE }),
    tags: cloneFrozen([...new Set([...resource.tags, ...target.tags])]),
    run: target.run,
  });
}

/** The transform can set or move the argument that names the other action, so a method cannot check it and refuses. */
const HIDDEN_CHOICE = Object.freeze({ argument: "" });

/** The target's normal forms, by the names of the caller's arguments. */
function pickNormalForms(forms: ArgumentForms = {}, { wrap }: ArgumentTransform): Pick<Action, "normalize"> {
  const prefix = wrap === undefined ? "" : `${wrap}.`;
  const own = Object.entries(forms).filter(([argument]) => argument.startsWith(prefix));
  if (own.length === 0) return {};
  return { normalize: Object.fromEntries(own.map(([argument, form]) => [argument.slice(prefix.length), form])) };
}

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

/** Cached, because thousands of resources may share one operation. */
function getOpenSchema(schema: JsonSchema, transform: ArgumentTransform): JsonSchema {
  const key = JSON.stringify([transform.wrap, Object.keys(transform.set ?? {})]);
  const known = openSchemas.get(schema) ?? new Map<string, JsonSchema>();
  openSchemas.set(schema, known);
  const open = known.get(key) ?? cloneFrozen(createOpenSchema(schema, transform));
  known.set(key, open);
  return open;
}

/** The target's schema without the arguments that the resource fills in. */
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
