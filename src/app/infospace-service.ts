import type { Provider } from "../catalog/define-action.ts";
import type { LiveResources } from "../catalog/snapshot.ts";
import type { Action, ActionProvenance } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { SEPARATOR } from "../core/names.ts";
import type { Runtime } from "../core/runtime.ts";
import { parseDuration } from "../core/runtime.ts";
import { createInfospace, toOwnerScope } from "../infospace/create-infospace.ts";
import { createHandleResolver, type HandleResolver } from "../infospace/handle-resolver.ts";
import type { ResourceAccess } from "../infospace/infospace.ts";
import type { InfospaceStore } from "../infospace/infospace-store.ts";
import { listSources, parseHandle, type ResourceKind } from "../infospace/note.ts";
import { createNotes, type Notes } from "../infospace/notes.ts";
import { createOperatorAccess } from "../infospace/operator-access.ts";
import { createInfospaceProvider } from "../infospace/primitives/provider.ts";
import { type CallLineage, createLineage, noLineage } from "../infospace/provenance.ts";
import { createQuota } from "../infospace/quota.ts";
import {
  createOwnResource,
  INFOSPACE,
  listUsable,
  toProvenance,
  toResourceAction,
} from "../infospace/resource-access.ts";
import { createResultStore, type ResultStore } from "../infospace/result-store.ts";
import { createNoteSearch } from "../infospace/search/create-note-search.ts";
import { parseCaller } from "./caller-access.ts";
import type { EmbeddingSearchOptions } from "./discovery.ts";
import type { InfospaceSettings } from "./options.ts";

/** Everything that keeps results and finds them again, wired together. */
export interface InfospaceService {
  /** None where nothing is kept. */
  readonly providers: readonly Provider[];
  readonly live: LiveResources;
  readonly handles: HandleResolver;
  readonly keeper: ResultStore;
  /** Follows what calls read and call. */
  readonly lineage: CallLineage;
  /** What is there already can be looked at also where nothing more is kept. */
  readonly notes: Notes;
  /** Forgets what has expired, now and from time to time. */
  start(): void;
  close(): Promise<void>;
}

export interface InfospaceServiceOptions {
  readonly settings: InfospaceSettings;
  /** How many characters of a result a model is shown. */
  readonly valueLimit: number;
  readonly store: InfospaceStore;
  readonly runtime: Runtime;
  /** Who makes vectors of notes. Absent: nobody, and notes are found by words. */
  readonly meaning?: EmbeddingSearchOptions | undefined;
  /** Another value whenever `access` may answer differently. */
  rights(): unknown;
  /** What the policy says of a resource. */
  access(resource: Action, caller: Caller): ResourceAccess;
  /** Whether the caller may use every action that something was made from. */
  mayUseAll(madeFrom: ActionProvenance, caller: Caller): boolean;
  sees(name: string, caller: Caller): boolean;
  readonly noteFor: (caller: Caller, event: UnstampedEvent) => void;
  readonly note: (event: UnstampedEvent) => void;
  readonly onProblem: (problem: string) => void;
}

const SWEEP_EVERY_MS = 10 * 60 * 1000;
const LIST_LIMIT = 1_000;
const DAY_MS = 86_400_000;

export function createInfospaceService(parts: InfospaceServiceOptions): InfospaceService {
  const { settings, runtime, access, sees, noteFor, note, onProblem } = parts;
  const lineage = createLineage(parts.store);
  const quota = createQuota(settings.quota);
  const store = parts.store.limitedTo(quota);
  const { enabled = true, expiresIn = "24h", fillLimit = 4 * 1024 * 1024 } = settings;
  const previewLimit = Math.min(settings.previewLimit ?? 1_200, parts.valueLimit);
  const basis = { store, runtime, expiresInMs: parseDuration(expiresIn) ?? DAY_MS };
  const infospace = createInfospace({ ...basis, mayUse: access, lineage, note: noteFor });
  const search = createNoteSearch({
    store,
    mayUse: access,
    allows: (origin, caller) => parts.mayUseAll(toProvenance(origin), caller),
    onFound: (origin) => lineage.add(listSources(origin)),
    rights: parts.rights,
    meaning: parts.meaning,
  });
  const operators = createOperatorAccess({ ...basis, meaning: parts.meaning, note });
  const notes = createNotes({
    ...basis,
    infospace,
    search,
    operators,
    mayUse: access,
    quota,
    completed: parseCaller,
    note: (event, caller) => (caller === undefined ? note(event) : noteFor(caller, event)),
  });
  async function closeSearch(): Promise<void> {
    await Promise.all([search.close(), operators.search.close()]);
  }
  if (!enabled) return { ...disabledInfospace, notes, close: closeSearch };
  const keeper = createResultStore({ infospace, previewLimit, sees });
  const canLoad = (caller: Caller): boolean =>
    resourceKinds.every((kind) => access(createOwnResource(kind, caller), caller) === "allowed");
  let sweeping: NodeJS.Timeout | undefined;
  let swept: Promise<void> = Promise.resolve();

  async function sweep(): Promise<void> {
    try {
      await notes.expire();
    } catch (thrown) {
      onProblem(`what has expired could not be removed: ${getErrorMessage(thrown)}`);
    }
  }

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
        valueLimit: parts.valueLimit,
        elapsed: runtime.elapsed,
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
    },
    handles: createHandleResolver({ infospace, fillLimit }),
    keeper: {
      ...keeper,
      // What the primitives answer is short already. What the caller could not load again is better cut than kept.
      store: async (result, maker, limit) => {
        const isLeft = result.size <= limit || isPrimitive(maker.action) || !canLoad(maker.caller);
        return isLeft ? undefined : keeper.store(result, maker, limit);
      },
      async storeStream(streamed, maker, signal) {
        if (canLoad(maker.caller)) return keeper.storeStream(streamed, maker, signal);
        await streamed.discard();
        throw loadDeniedError();
      },
    },
    lineage,
    notes,
    start() {
      swept = sweep();
      sweeping = setInterval(() => {
        swept = sweep();
      }, SWEEP_EVERY_MS).unref();
    },
    async close() {
      clearInterval(sweeping);
      await closeSearch();
      await swept;
    },
  };
}

const resourceKinds = ["note", "collection"] as const;

/** Nobody else may list actions that look like handles. */
function reserveCategory(category: ResourceKind): Provider {
  return { category, capability: `load what is kept as a ${category}`, list: () => [] };
}

function isPrimitive(action: string): boolean {
  return [INFOSPACE, ...resourceKinds].some((category) => action.startsWith(category + SEPARATOR));
}

function loadDeniedError(): QmError {
  return new QmError("denied", "it answers bit by bit, and you may not load what is kept", {
    hint: "An operator can let you use infospace__load, note__* and collection__*.",
  });
}

/** Long results are cut, and what looks like a handle is data. */
const disabledInfospace: Omit<InfospaceService, "notes" | "close"> = {
  providers: [],
  live: { find: () => undefined, list: async () => [] },
  handles: { fill: async (_caller, args) => ({ args, from: [] }) },
  keeper: {
    store: async () => undefined,
    async storeStream(streamed) {
      await streamed.discard();
      throw new QmError("invalid_output", "it answers bit by bit, and nothing is kept here", {
        hint: "Switch infospace.enabled on.",
      });
    },
  },
  lineage: noLineage,
  start() {},
};
