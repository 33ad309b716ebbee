import { AsyncLocalStorage } from "node:async_hooks";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { InfospaceStore } from "./infospace-store.ts";
import type { Collection, NoteFacts, NoteOrigin } from "./note.ts";
import { formatHandle, type ResourceKind } from "./note.ts";

/** In whose name, and by which call, something is written. */
export interface NoteAuthor {
  readonly caller: Caller;
  readonly action: string;
  readonly callId: string;
}

export function createNoteOrigin({ caller, action, callId }: NoteAuthor, at: Date): NoteOrigin {
  const { actor, session, turn, tenant, user } = caller;
  return {
    action,
    callId,
    actor,
    session,
    ...(turn === undefined ? {} : { turn }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user: user.id }),
    at: at.toISOString(),
  };
}

const SHORT = 1024;

/** That it was made, or has a new version, as the ledger has it. */
export function createWrittenEvent(
  { callId }: Pick<NoteAuthor, "callId">,
  kind: ResourceKind,
  made: NoteFacts | Collection,
): UnstampedEvent<"resource.written"> {
  const { id, version, bytes, name } = made;
  // The hash of something short would give it away to whoever tries all values.
  const facts = "count" in made ? { count: made.count } : bytes > SHORT ? { hash: made.hash } : {};
  const label = name === undefined ? {} : { name };
  const data = { callId, handle: formatHandle(kind, id), version, bytes, ...facts, ...label };
  return { type: "resource.written", data };
}

/** The actions that the running call has data from: itself, those it called, and those that made what it read. */
export interface Lineage {
  /** Runs a call. One that is made inside another shares the other's sources, in both directions. */
  track<T>(isInside: boolean, work: () => Promise<T>): Promise<T>;
  add(actions: Iterable<string>): void;
  sources(): readonly string[];
  /** Stores the sources of a call that waits for a person, for whichever process runs it. */
  hold(callId: string): Promise<void>;
  /** Adds the sources that were stored for a call. */
  resume(callId: string): Promise<void>;
}

/** What the way of a call needs of it. */
export type CallLineage = Omit<Lineage, "sources">;

/** Where nothing is kept, nothing is followed. */
export const noLineage: CallLineage = {
  track: (_isInside, work) => work(),
  add: () => {},
  hold: async () => {},
  resume: async () => {},
};

export function createLineage(store: Pick<InfospaceStore, "holdSources" | "heldSources">): Lineage {
  const calls = new AsyncLocalStorage<Set<string>>();
  const sources = (): readonly string[] => [...(calls.getStore() ?? [])];
  function add(actions: Iterable<string>): void {
    const known = calls.getStore();
    for (const action of actions) known?.add(action);
  }
  return {
    track: (isInside, work) => (isInside && calls.getStore() !== undefined ? work() : calls.run(new Set(), work)),
    add,
    sources,
    async hold(callId) {
      // The action itself is known again when the call is resumed.
      if (sources().length > 1) await store.holdSources(callId, sources());
    },
    resume: async (callId) => add(await store.heldSources(callId)),
  };
}
