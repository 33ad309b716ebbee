import type { Provider } from "../catalog/define-action.ts";
import type { LiveResources } from "../catalog/snapshot.ts";
import type { Action, ActionProvenance } from "../core/action.ts";
import { repeatEvery } from "../core/async.ts";
import type { Caller, SayListener } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { SEPARATOR } from "../core/names.ts";
import type { ResourceAccess } from "../core/resource-access.ts";
import { parseDuration, type Runtime } from "../core/runtime.ts";
import { createInfospace, toOwnerScope } from "../infospace/create-infospace.ts";
import { createHandleResolver, type HandleResolver } from "../infospace/handle-resolver.ts";
import type { InfospaceStore } from "../infospace/infospace-store.ts";
import { listSources, parseHandle, type ResourceKind } from "../infospace/note.ts";
import { createNotes, type Notes } from "../infospace/notes.ts";
import { createOperatorAccess } from "../infospace/operator-access.ts";
import { createInfospaceProvider } from "../infospace/primitives/provider.ts";
import { type CallLineage, createLineage } from "../infospace/provenance.ts";
import { createQuota } from "../infospace/quota.ts";
import {
  createOwnResource,
  INFOSPACE,
  LOAD,
  listUsable,
  toProvenance,
  toResourceAction,
} from "../infospace/resource-access.ts";
import { createResultStore, type ResultStore } from "../infospace/result-store.ts";
import { createNoteSearch } from "../infospace/search/create-note-search.ts";
import { parseCaller } from "./caller-access.ts";
import type { EmbeddingSearchOptions } from "./discovery.ts";
import type { CallerOptions, ResolvedOptions } from "./options.ts";

/** Stores long results as notes and finds them again. */
export interface InfospaceService {
  readonly providers: readonly Provider[];
  readonly live: LiveResources;
  readonly handles: HandleResolver;
  readonly keeper: ResultStore;
  readonly lineage: CallLineage;
  readonly notes: Notes;
  /** Removes expired notes, now and every ten minutes. */
  start(): void;
  close(): Promise<void>;
}

export interface InfospaceServiceOptions {
  readonly settings: ResolvedOptions["infospace"];
  readonly valueLimit: number;
  readonly store: InfospaceStore;
  readonly runtime: Runtime;
  /** Absent: notes are searched by words only. */
  readonly meaning?: EmbeddingSearchOptions | undefined;
  rights(): unknown;
  access(resource: Action, caller: Caller): ResourceAccess;
  mayUseAll(madeFrom: ActionProvenance, caller: Caller): boolean;
  sees(name: string, caller: Caller): boolean;
  /** Throws if the caller's actor cannot be used. */
  checkCaller(caller: Caller): void;
  readonly record: (caller: Caller | undefined, event: UnstampedEvent) => void;
  readonly onProblem: (problem: string) => void;
  readonly onSay?: SayListener | undefined;
}

const SWEEP_EVERY_MS = 10 * 60 * 1000;
const LIST_LIMIT = 1_000;

export function createInfospaceService(parts: InfospaceServiceOptions): InfospaceService {
  const { settings, valueLimit, runtime, meaning, access, sees, record, onProblem } = parts;
  const lineage = createLineage(parts.store);
  const quota = createQuota(settings.quota);
  const store = parts.store.limitedTo(quota);
  const previewLimit = Math.min(settings.previewLimit, valueLimit);
  const basis = { store, runtime, expiresInMs: parseDuration(settings.expiresIn) ?? 0 };
  const note = (event: UnstampedEvent, caller?: Caller) => record(caller, event);
  const infospace = createInfospace({ ...basis, mayUse: access, lineage, note: record });
  const search = createNoteSearch({
    store,
    mayUse: access,
    allows: (origin, caller) => parts.mayUseAll(toProvenance(origin), caller),
    onFound: (origin) => lineage.add(listSources(origin)),
    rights: parts.rights,
    meaning,
  });
  const operators = createOperatorAccess({ ...basis, meaning, note });
  const toCaller = (caller: CallerOptions | undefined): Caller => {
    const parsed = parseCaller(caller);
    if (caller !== undefined) parts.checkCaller(parsed);
    return parsed;
  };
  const notes = createNotes({ ...basis, infospace, search, operators, mayUse: access, quota, toCaller, note });
  const keeper = createResultStore({ infospace, previewLimit, sees });
  const canOpen = (kind: ResourceKind, caller: Caller): boolean =>
    access(createOwnResource(kind, caller), caller) === "allowed";
  const canLoad = (caller: Caller): boolean => resourceKinds.every((kind) => canOpen(kind, caller));
  async function sweep(): Promise<void> {
    try {
      await notes.expire();
    } catch (thrown) {
      onProblem(`expired notes could not be removed: ${getErrorMessage(thrown)}`);
    }
  }

  const sweeping = repeatEvery(SWEEP_EVERY_MS, sweep);

  async function findResource(kind: ResourceKind, id: number): Promise<Action | undefined> {
    const facts = await (kind === "note" ? store.noteFacts(id) : store.collection(id));
    return facts && toResourceAction(kind, facts);
  }

  return {
    providers: [
      createInfospaceProvider({
        infospace,
        search,
        previewLimit,
        valueLimit,
        elapsed: runtime.elapsed,
        onSay: parts.onSay,
      }),
      ...resourceKinds.map(reserveCategory),
    ],
    live: {
      find(name) {
        const reference = parseHandle(name);
        return reference && findResource(reference.kind, reference.id);
      },
      async list(caller, categories) {
        const all: Action[] = [];
        for (const kind of resourceKinds.filter((each) => categories.includes(each))) {
          const query = { kind, whose: toOwnerScope(caller) };
          let count = 0;
          for await (const each of listUsable({ store, mayUse: access }, query, caller, LIST_LIMIT)) {
            all.push(toResourceAction(kind, each));
            if (++count === LIST_LIMIT) break;
          }
        }
        return all;
      },
      categories: (caller) =>
        [...resourceKinds].sort().flatMap((name) => (canOpen(name, caller) ? [{ name, target: LOAD }] : [])),
    },
    handles: createHandleResolver({ infospace, fillLimit: settings.fillLimit }),
    keeper: {
      ...keeper,
      // Results of primitives are short already. A result that the caller may not load again is cut, not stored.
      async store(result, maker, limit) {
        const isCut = result.size <= limit || isPrimitive(maker.action) || !canLoad(maker.caller);
        return isCut ? undefined : keeper.store(result, maker, limit);
      },
      async storeStream(streamed, maker, signal) {
        if (canLoad(maker.caller)) return keeper.storeStream(streamed, maker, signal);
        await streamed.discard();
        const hint = "An operator can let you use the actions that load notes and collections.";
        throw new QmError("denied", "the action streams its result, and you may not load stored results", { hint });
      },
    },
    lineage,
    notes,
    start: sweeping.start,
    async close() {
      await Promise.all([sweeping.close(), search.close(), operators.search.close()]);
    },
  };
}

const resourceKinds = ["note", "collection"] as const;

/** Reserves a category, so that no provider can list actions that look like handles. */
const reserveCategory = (category: ResourceKind): Provider => ({
  category,
  capability: `Open a stored ${category === "note" ? "text or result" : "list of notes"}.`,
  list: () => [],
});
const isPrimitive = (action: string): boolean =>
  [INFOSPACE, ...resourceKinds].some((category) => action.startsWith(category + SEPARATOR));
