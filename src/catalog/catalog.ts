import type { Action, JsonSchema } from "../core/action.ts";
import { getDefinitionHash } from "../core/action.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { cloneFrozen, isDeepFrozen, isRecord } from "../core/json.ts";
import { assertCategory, quoteName } from "../core/names.ts";
import { guardSchema } from "../core/schema-guard.ts";
import type { Provider } from "./define-action.ts";
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
  /** After each change of a category, once the new list is in force. */
  readonly onChange?: (change: CategoryChange) => void;
  /** Something a provider did wrong; the rest of the catalog goes on without it. */
  readonly onProblem?: (category: string, problem: string) => void;
}

/** Every action there is, whoever may see it: views are cut from it. */
export interface Catalog {
  snapshot(): CatalogSnapshot;
  /** Resolves when every list asked for so far has arrived or failed. */
  settled(): Promise<void>;
  /** Adds a provider, or puts it in the place of its category's, which is not closed: it may be put back. */
  provide(provider: Provider): void;
  /** Takes the category's provider and its actions away. */
  withdraw(category: string): Promise<void>;
  close(): Promise<void>;
}

interface ProviderSlot {
  readonly provider: Provider;
  readonly unwatch: () => void;
  list: readonly Action[];
  /** Counts the times the list was asked for, so that a late answer cannot undo a newer one. */
  asked: number;
}

export function createCatalog({ providers, onChange = () => {}, onProblem = () => {} }: CatalogOptions): Catalog {
  const slots = new Map<string, ProviderSlot>();
  const underWay = new Set<Promise<void>>();
  let version = 0;
  let closed = false;
  let current: CatalogSnapshot | undefined;

  function provide(provider: Provider): void {
    const { category } = provider;
    assertCategory(category);
    const before = slots.get(category);
    before?.unwatch();
    const unwatch = provider.watch?.(() => requestList(slot)) ?? (() => {});
    const slot: ProviderSlot = { provider, unwatch, list: before?.list ?? [], asked: 0 };
    slots.set(category, slot);
    requestList(slot);
  }

  function requestList(slot: ProviderSlot): void {
    if (closed) return;
    const turn = ++slot.asked;
    const category = slot.provider.category;
    const take = (listed: readonly Action[]): void => {
      if (turn === slot.asked && slots.get(category) === slot && !closed) put(slot, filterValid(category, listed));
    };
    const fail = (thrown: unknown): void => {
      if (!closed) onProblem(category, `could not list its actions: ${getErrorMessage(thrown)}`);
    };
    try {
      const listed = slot.provider.list();
      if (!(listed instanceof Promise)) {
        take(listed);
        return;
      }
      const arriving: Promise<void> = listed
        .then(take)
        .catch(fail)
        .finally(() => underWay.delete(arriving));
      underWay.add(arriving);
    } catch (thrown) {
      fail(thrown);
    }
  }

  function put(slot: ProviderSlot, list: readonly Action[]): void {
    const change = countChanges(slot.provider.category, slot.list, list);
    slot.list = list;
    current = undefined;
    version++;
    if (change.added + change.removed + change.changed > 0) onChange(change);
  }

  /** What of a provider's list can be used; the rest is reported and hides nothing else. */
  function filterValid(category: string, listed: readonly Action[]): readonly Action[] {
    const seen = new Set<string>();
    return listed.flatMap((action) => {
      const problem = findActionProblem(category, action, seen);
      if (problem !== undefined) {
        onProblem(category, problem);
        return [];
      }
      seen.add(action.name);
      return [freezeSchemas(action)];
    });
  }

  for (const provider of providers) {
    if (slots.has(provider.category))
      throw new QmError("invalid_config", `two providers claim the category ${provider.category}`);
    provide(provider);
  }

  return {
    snapshot() {
      if (current === undefined) {
        const { snapshot, unlinked } = takeSnapshot(
          version,
          [...slots.values()].map((slot) => slot.list),
        );
        current = snapshot;
        for (const { category, name, canonical } of unlinked) {
          onProblem(category, `${name} is left out: the operation it runs, ${canonical?.target}, is not there`);
        }
      }
      return current;
    },
    async settled() {
      while (underWay.size > 0) await Promise.all(underWay);
    },
    provide,
    async withdraw(category) {
      const slot = slots.get(category);
      if (slot === undefined) return;
      slot.unwatch();
      slots.delete(category);
      put(slot, []);
      await slot.provider.close?.();
    },
    async close() {
      closed = true;
      for (const slot of slots.values()) slot.unwatch();
      await Promise.all([...slots.values()].map((slot) => slot.provider.close?.()));
    },
  };
}

// A frozen schema that was sound when it was last listed still is.
const guarded = new WeakSet<JsonSchema>();

function findActionProblem(category: string, action: Action, seen: ReadonlySet<string>): string | undefined {
  if (!isRecord(action) || typeof action.name !== "string") return "something is left out: it is no action";
  if (action.category !== category) return `${action.name} is left out: it is not of category ${category}`;
  const reserved = action.aliases?.find(isReservedName);
  if (reserved !== undefined) return `${action.name} is left out: its alias ${quoteName(reserved)} is reserved`;
  if (seen.has(action.name)) return `${action.name} is left out: it was listed twice`;
  try {
    if (!guarded.has(action.inputSchema)) guardSchema(action.inputSchema, "arguments");
    if (action.outputSchema !== undefined && !guarded.has(action.outputSchema))
      guardSchema(action.outputSchema, "result");
    return undefined;
  } catch (thrown) {
    return `${action.name} is left out: ${getErrorMessage(thrown)}`;
  }
}

/** The action as it may be handed out: with schemas that nobody can change. */
function freezeSchemas(action: Action): Action {
  const { inputSchema, outputSchema } = action;
  const [input, output] = [freezeSchema(inputSchema), outputSchema && freezeSchema(outputSchema)];
  if (input === inputSchema && output === outputSchema) return action;
  return Object.freeze({ ...action, inputSchema: input, ...(output === undefined ? {} : { outputSchema: output }) });
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
