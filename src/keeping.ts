import { completed } from "./callers.ts";
import type { LiveResources } from "./catalog/live.ts";
import type { Provider } from "./catalog/provider.ts";
import type { Action, MadeFrom } from "./core/action.ts";
import type { Caller } from "./core/caller.ts";
import { durationMs } from "./core/duration.ts";
import { messageOf, QmError } from "./core/errors.ts";
import type { UnstampedEvent } from "./core/events.ts";
import { SEPARATOR } from "./core/names.ts";
import type { Runtime } from "./core/runtime.ts";
import type { Meaning } from "./discovery.ts";
import { createInfospace, whoseOf } from "./infospace/create-infospace.ts";
import { parseHandle, type ResourceKind } from "./infospace/handle.ts";
import { createHandles, type Handles } from "./infospace/handles.ts";
import type { Access } from "./infospace/infospace.ts";
import type { InfospaceStore } from "./infospace/infospace-store.ts";
import { createKeeper, type Keeper } from "./infospace/keep.ts";
import { type CallLineage, createLineage, noLineage } from "./infospace/lineage.ts";
import { sourcesOf } from "./infospace/note.ts";
import { createNotes, type Notes } from "./infospace/notes.ts";
import { createOperators } from "./infospace/operators.ts";
import { infospaceProvider } from "./infospace/primitives/provider.ts";
import { quotaWith } from "./infospace/quota.ts";
import { INFOSPACE, madeFrom, ownResource, resourceAction } from "./infospace/resource.ts";
import { createNoteSearch } from "./infospace/search/create-note-search.ts";
import { usable } from "./infospace/usable.ts";
import type { InfospaceSettings } from "./options.ts";

/** Everything that keeps results and finds them again, wired together. */
export interface Keeping {
  /** None where nothing is kept. */
  readonly providers: readonly Provider[];
  readonly live: LiveResources;
  readonly handles: Handles;
  readonly keeper: Keeper;
  /** Follows what calls read and call. */
  readonly lineage: CallLineage;
  /** What is there already can be looked at also where nothing more is kept. */
  readonly notes: Notes;
  /** Forgets what has expired, now and from time to time. */
  start(): void;
  close(): Promise<void>;
}

export interface KeepingParts {
  readonly settings: InfospaceSettings;
  /** How many characters of a result a model is shown. */
  readonly valueLimit: number;
  readonly store: InfospaceStore;
  readonly runtime: Runtime;
  /** Who makes vectors of notes. Absent: nobody, and notes are found by words. */
  readonly meaning?: Meaning | undefined;
  /** Another value whenever `access` may answer differently. */
  rights(): unknown;
  /** What the policy says of a resource. */
  access(resource: Action, caller: Caller): Access;
  /** Whether the caller may use every action that something was made from. */
  mayUseAll(madeFrom: MadeFrom, caller: Caller): boolean;
  sees(name: string, caller: Caller): boolean;
  readonly noteFor: (caller: Caller, event: UnstampedEvent) => void;
  readonly note: (event: UnstampedEvent) => void;
  readonly onProblem: (problem: string) => void;
}

const SWEEP_EVERY_MS = 10 * 60 * 1000;
const MOST_LISTED = 1_000;
const DAY_MS = 86_400_000;

export function createKeeping(parts: KeepingParts): Keeping {
  const { settings, runtime, access, sees, noteFor, note, onProblem } = parts;
  const lineage = createLineage(parts.store);
  const quota = quotaWith(settings.quota);
  const store = parts.store.limitedTo(quota);
  const { enabled = true, expiresIn = "24h", fillLimit = 4 * 1024 * 1024 } = settings;
  const previewLimit = Math.min(settings.previewLimit ?? 1_200, parts.valueLimit);
  const basis = { store, runtime, expiresInMs: durationMs(expiresIn) ?? DAY_MS };
  const infospace = createInfospace({ ...basis, mayUse: access, lineage, note: noteFor });
  const search = createNoteSearch({
    store,
    mayUse: access,
    allows: (origin, caller) => parts.mayUseAll(madeFrom(origin), caller),
    onFound: (origin) => lineage.add(sourcesOf(origin)),
    rights: parts.rights,
    meaning: parts.meaning,
  });
  const operators = createOperators({ ...basis, meaning: parts.meaning, note });
  const notes = createNotes({
    ...basis,
    infospace,
    search,
    operators,
    mayUse: access,
    quota,
    completed,
    note: (event, caller) => (caller === undefined ? note(event) : noteFor(caller, event)),
  });
  async function closeSearch(): Promise<void> {
    await Promise.all([search.close(), operators.search.close()]);
  }
  if (!enabled) return { ...nothingKept, notes, close: closeSearch };
  const keeper = createKeeper({ infospace, previewLimit, sees });
  const canLoad = (caller: Caller): boolean =>
    kinds.every((kind) => access(ownResource(kind, caller), caller) === "allowed");
  let sweeping: NodeJS.Timeout | undefined;
  let swept: Promise<void> = Promise.resolve();

  async function sweep(): Promise<void> {
    try {
      await notes.expire();
    } catch (thrown) {
      onProblem(`what has expired could not be removed: ${messageOf(thrown)}`);
    }
  }

  async function found(kind: ResourceKind, id: number): Promise<Action | undefined> {
    const facts = await (kind === "note" ? store.noteFacts(id) : store.collection(id));
    return facts && resourceAction(kind, facts);
  }

  return {
    providers: [
      infospaceProvider({ infospace, search, previewLimit, valueLimit: parts.valueLimit, elapsed: runtime.elapsed }),
      ...kinds.map(reserved),
    ],
    live: {
      find(name) {
        const reference = parseHandle(name);
        return reference && found(reference.kind, reference.id);
      },
      async list(caller, categories) {
        const all: Action[] = [];
        for (const kind of kinds.filter((each) => categories.includes(each))) {
          const query = { kind, whose: whoseOf(caller) };
          let count = 0;
          for await (const each of usable({ store, mayUse: access }, query, caller, MOST_LISTED)) {
            all.push(resourceAction(kind, each));
            if (++count === MOST_LISTED) break;
          }
        }
        return all;
      },
    },
    handles: createHandles({ infospace, fillLimit }),
    keeper: {
      ...keeper,
      // What the primitives answer is short already. What the caller could not load again is better cut than kept.
      keep: async (result, maker, limit) => {
        const isLeft = result.size <= limit || isPrimitive(maker.action) || !canLoad(maker.caller);
        return isLeft ? undefined : keeper.keep(result, maker, limit);
      },
      async keepStream(streamed, maker, signal) {
        if (canLoad(maker.caller)) return keeper.keepStream(streamed, maker, signal);
        await streamed.discard();
        throw notForYou();
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

const kinds = ["note", "collection"] as const;

/** Nobody else may list actions that look like handles. */
function reserved(category: ResourceKind): Provider {
  return { category, capability: `load what is kept as a ${category}`, list: () => [] };
}

function isPrimitive(action: string): boolean {
  return [INFOSPACE, ...kinds].some((category) => action.startsWith(category + SEPARATOR));
}

function notForYou(): QmError {
  return new QmError("denied", "it answers bit by bit, and you may not load what is kept", {
    hint: "An operator can let you use infospace__load, note__* and collection__*.",
  });
}

/** Long results are cut, and what looks like a handle is data. */
const nothingKept: Omit<Keeping, "notes" | "close"> = {
  providers: [],
  live: { find: () => undefined, list: async () => [] },
  handles: { fill: async (_caller, args) => ({ args, from: [] }) },
  keeper: {
    keep: async () => undefined,
    async keepStream(streamed) {
      await streamed.discard();
      throw new QmError("invalid_output", "it answers bit by bit, and nothing is kept here", {
        hint: "Switch infospace.enabled on.",
      });
    },
  },
  lineage: noLineage,
  start() {},
};
