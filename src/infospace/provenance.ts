import { AsyncLocalStorage } from "node:async_hooks";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import type { InfospaceStore } from "./infospace-store.ts";
import { formatHandle, getResourceKind, type NoteOrigin, type Resource } from "./note.ts";

/** The caller and the call that write something. */
export type NoteAuthor = Readonly<{ caller: Caller; action: string; callId: string }>;

export function createNoteOrigin({ caller, action, callId }: NoteAuthor, at: Date): NoteOrigin {
  const { actor, session, turn, tenant, user } = caller;
  return omitUndefined({ action, callId, actor, session, turn, tenant, user: user?.id, at: at.toISOString() });
}

const MIN_HASHED_BYTES = 1024;

export function createWrittenEvent({ callId }: NoteAuthor, resource: Resource): UnstampedEvent<"resource.written"> {
  const { id, version, bytes, name, ...facts } = resource;
  // Short contents could be guessed from their hash.
  const size = "count" in facts ? { count: facts.count } : bytes > MIN_HASHED_BYTES ? { hash: facts.hash } : {};
  const handle = formatHandle(getResourceKind(resource), id);
  const label = name === undefined ? {} : { name };
  return { type: "resource.written", data: { callId, handle, version, bytes, ...size, ...label } };
}

/** The actions whose data a running call has: itself, those it called, and the sources of what it read. */
export interface CallSources {
  add(actions: Iterable<string>): void;
  /** Runs work that reads or writes notes, such as a handler. What it reads is added, and what it writes has them all. */
  within<T>(work: () => T): T;
}

/** Its other methods are about the call whose `within` they are used in. */
export interface Lineage {
  /** Begins a call. A nested call and its outer call share their sources. */
  begin(isInside: boolean): CallSources;
  add(actions: Iterable<string>): void;
  sources(): readonly string[];
  /** Stores the sources of a call that waits for approval. Another process may resume it. */
  hold(callId: string): Promise<void>;
  resume(callId: string): Promise<void>;
}

export type CallLineage = Lineage;

/** Tracks nothing, for a gateway without an infospace. */
export const noLineage: CallLineage = {
  begin: () => ({ add() {}, within: (work) => work() }),
  add: () => {},
  sources: () => [],
  hold: async () => {},
  resume: async () => {},
};

export function createLineage(store: Pick<InfospaceStore, "holdSources" | "heldSources">): Lineage {
  const calls = new AsyncLocalStorage<Set<string>>();
  const sources = (): readonly string[] => [...(calls.getStore() ?? [])];
  function add(actions: Iterable<string>, known = calls.getStore()): void {
    for (const action of actions) known?.add(action);
  }
  return {
    begin(isInside) {
      const own = (isInside ? calls.getStore() : undefined) ?? new Set<string>();
      return {
        add: (actions) => add(actions, own),
        // From its first use on, Node tracks every promise of the process, which slows all calls down.
        within: (work) => (calls.getStore() === own ? work() : calls.run(own, work)),
      };
    },
    add: (actions) => add(actions),
    sources,
    async hold(callId) {
      // A resumed call adds its own action again, so a single source need not be stored.
      if (sources().length > 1) await store.holdSources(callId, sources());
    },
    resume: async (callId) => add(await store.heldSources(callId)),
  };
}
