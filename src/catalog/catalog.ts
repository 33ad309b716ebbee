import { type Action, getDefinitionHash, type JsonSchema } from "../core/action.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { cloneFrozen, isDeepFrozen, isRecord } from "../core/json.ts";
import { assertCategory, quoteName } from "../core/names.ts";
import { guardSchema } from "../core/schema-guard.ts";
import { extendAction, isUnreadSchema, type PendingSource, type Provider, SCHEMA_FIELDS } from "./define-action.ts";
import { type CatalogSnapshot, takeSnapshot } from "./snapshot.ts";
import { isReservedName } from "./spelling.ts";

export interface CategoryChange {
  readonly category: string;
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
}

export interface CatalogOptions {
  readonly providers: readonly Provider[];
  readonly onChange?: (change: CategoryChange) => void;
  /** Called when a provider fails or lists an invalid action. The rest of the catalog stays usable. */
  readonly onProblem?: (category: string, problem: string) => void;
}

/** All actions. Views show each caller a part of it. */
export interface Catalog {
  snapshot(): CatalogSnapshot;
  /** Resolves when every requested list has arrived or failed. */
  settled(): Promise<void>;
  /** Asks a pending source which actions it has. Does nothing if it is known by now. Rejects if it fails. */
  learn(source: PendingSource, signal?: AbortSignal): Promise<void>;
  /** Adds a provider, or replaces that of its category without closing it. */
  provide(provider: Provider): void;
  withdraw(category: string): Promise<void>;
  close(): Promise<void>;
}

interface ProviderSlot {
  readonly provider: Provider;
  readonly unwatch: () => void;
  list: readonly Action[];
  /** Counts the requests, so that a late answer cannot replace a newer one. */
  requests: number;
}

export function createCatalog({ providers, onChange = () => {}, onProblem = () => {} }: CatalogOptions): Catalog {
  const slots = new Map<string, ProviderSlot>();
  const pending = new Set<Promise<void>>();
  let version = 0;
  let closed = false;
  let current: CatalogSnapshot | undefined;

  function provide(provider: Provider): void {
    const { category } = provider;
    assertCategory(category);
    const before = slots.get(category);
    before?.unwatch();
    const unwatch = provider.watch?.(() => requestList(slot)) ?? (() => {});
    const slot: ProviderSlot = { provider, unwatch, list: before?.list ?? [], requests: 0 };
    slots.set(category, slot);
    requestList(slot);
  }

  function requestList(slot: ProviderSlot): void {
    if (closed) return;
    const request = ++slot.requests;
    const { category } = slot.provider;
    const accept = (listed: readonly Action[]): void => {
      if (request !== slot.requests || slots.get(category) !== slot || closed) return;
      replaceList(slot, filterValid(category, listed));
    };
    const fail = (thrown: unknown): void => {
      if (!closed) onProblem(category, `could not list its actions: ${getErrorMessage(thrown)}`);
    };
    try {
      const listed = slot.provider.list();
      if (!(listed instanceof Promise)) return void accept(listed);
      const arriving = listed
        .then(accept)
        .catch(fail)
        .finally(() => pending.delete(arriving));
      pending.add(arriving);
    } catch (thrown) {
      fail(thrown);
    }
  }

  function replaceList(slot: ProviderSlot, list: readonly Action[]): void {
    const change = countChanges(slot.provider.category, slot.list, list);
    slot.list = list;
    current = undefined;
    version++;
    if (change.added + change.removed + change.changed > 0) onChange(change);
  }

  function filterValid(category: string, listed: readonly Action[]): readonly Action[] {
    const seen = new Set<string>();
    return listed.flatMap((action) => {
      const problem = findActionProblem(category, action, seen);
      if (problem === undefined) {
        seen.add(action.name);
        return [freezeSchemas(action)];
      }
      onProblem(category, problem);
      return [];
    });
  }

  async function waitForLists(): Promise<void> {
    while (pending.size > 0) await Promise.all(pending);
  }

  for (const provider of providers) {
    if (slots.has(provider.category))
      throw new QmError("invalid_config", `two providers claim the category ${provider.category}`);
    provide(provider);
  }

  return {
    snapshot() {
      if (current === undefined) {
        const all = [...slots.values()];
        const lists = all.map(({ list }) => list);
        const capabilities = new Map(all.map(({ provider }) => [provider.category, provider.capability]));
        const { snapshot, unlinked } = takeSnapshot(version, lists, all.flatMap(listPending), capabilities);
        current = snapshot;
        for (const { category, name, canonical } of unlinked)
          onProblem(category, `${name} is left out: the operation it runs, ${canonical?.target}, does not exist`);
      }
      return current;
    },
    settled: waitForLists,
    async learn(source, signal) {
      const slot = [...slots.values()].find((each) => listPending(each).some(({ prefix }) => prefix === source.prefix));
      await slot?.provider.learn?.(source, signal);
      await waitForLists();
    },
    provide,
    async withdraw(category) {
      const slot = slots.get(category);
      if (slot === undefined) return;
      slot.unwatch();
      slots.delete(category);
      replaceList(slot, []);
      await slot.provider.close?.();
    },
    async close() {
      closed = true;
      for (const slot of slots.values()) slot.unwatch();
      await Promise.all([...slots.values()].map((slot) => slot.provider.close?.()));
    },
  };
}

const listPending = ({ provider }: ProviderSlot): readonly PendingSource[] => provider.pending?.() ?? [];

const guarded = new WeakSet<JsonSchema>();
const SCHEMA_USES = { inputSchema: "arguments", outputSchema: "result" } as const;

function findActionProblem(category: string, action: Action, seen: ReadonlySet<string>): string | undefined {
  if (!isRecord(action) || typeof action.name !== "string") return "something is left out: it is no action";
  if (action.category !== category) return `${action.name} is left out: it is not of category ${category}`;
  const reserved = action.aliases?.find(isReservedName);
  if (reserved !== undefined) return `${action.name} is left out: its alias ${quoteName(reserved)} is reserved`;
  if (seen.has(action.name)) return `${action.name} is left out: it was listed twice`;
  try {
    for (const field of SCHEMA_FIELDS) {
      // The tests guard our own.
      if (isUnreadSchema(action, field)) continue;
      const { [field]: schema } = action;
      const isMissing = field === "outputSchema" && schema === undefined;
      if (!isMissing && !(schema && guarded.has(schema))) guardSchema(schema, SCHEMA_USES[field]);
    }
    return undefined;
  } catch (thrown) {
    return `${action.name} is left out: ${getErrorMessage(thrown)}`;
  }
}

function freezeSchemas(action: Action): Action {
  const read = SCHEMA_FIELDS.filter((field) => !isUnreadSchema(action, field) && action[field] !== undefined);
  const frozen = Object.fromEntries(read.map((field) => [field, freezeSchema(action[field] ?? {})]));
  return read.every((field) => frozen[field] === action[field]) ? action : extendAction(action, frozen);
}

function freezeSchema(schema: JsonSchema): JsonSchema {
  if (guarded.has(schema)) return schema;
  const frozen = isDeepFrozen(schema) ? schema : cloneFrozen(schema);
  guarded.add(frozen);
  return frozen;
}

function countChanges(category: string, before: readonly Action[], after: readonly Action[]): CategoryChange {
  const old = new Map(before.map((action) => [action.name, action]));
  let added = 0;
  let changed = 0;
  for (const action of after) {
    const earlier = old.get(action.name);
    old.delete(action.name);
    if (earlier === undefined) added++;
    else if (earlier !== action && getDefinitionHash(earlier) !== getDefinitionHash(action)) changed++;
  }
  return { category, added, removed: old.size, changed };
}
