import type { Action } from "../../core/action.ts";
import type { Caller } from "../../core/caller.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { ResourceAccess } from "../../core/resource-access.ts";
import { openSqlite } from "../../store/drivers/sqlite.ts";
import { openStore } from "../../store/open-store.ts";
import type { InfospaceStore, Retention } from "../infospace-store.ts";
import { toJsonContent } from "../infospace-store.ts";
import type { NoteVisibility } from "../note.ts";
import { createNoteSearch, type NoteSearchOptions } from "./create-note-search.ts";

export const ada: Caller = { actor: "assistant", session: "s1", tenant: "acme", user: { id: "ada" } };
export const bob: Caller = { actor: "assistant", session: "s2", tenant: "acme", user: { id: "bob" } };

const START = Date.UTC(2026, 0, 1);
const DAY_MS = 24 * 60 * 60 * 1000;

export interface Labelled {
  readonly name?: string;
  readonly properties?: JsonObject;
}

/** A store in memory with a clock that stands still, what was read of it, and searches over it. */
export async function openTestSearch(atEnd: (close: () => Promise<void>) => void) {
  const clock = { days: 0 };
  const now = () => new Date(START + clock.days * DAY_MS);
  const store = await openStore(await openSqlite(":memory:"), now);
  atEnd(() => store.close());
  const read: number[] = [];
  const infospace: InfospaceStore = {
    ...store.infospace,
    async notes(ids) {
      read.push(...ids);
      return store.infospace.notes(ids);
    },
  };
  let ids = 0;
  const runtime = { now, elapsed: () => performance.now(), newId: () => `id-${ids++}` };
  const self = { pid: 1, host: "here", isAlive: () => true };

  function searchWith(
    options: Partial<NoteSearchOptions> & {
      readonly embedder?: NonNullable<NoteSearchOptions["meaning"]>["embedder"];
    } = {},
  ) {
    const { embedder, ...rest } = options;
    const meaning =
      embedder === undefined
        ? {}
        : { meaning: { embedder, store: store.vectors, locks: store.locks, runtime, self, queryLimitMs: 60_000 } };
    const search = createNoteSearch({ store: infospace, mayUse: allowOwner, ...meaning, ...rest });
    atEnd(() => search.close());
    return search;
  }

  const createOrigin = (caller: Caller, action = "tool__list") => {
    const { actor, session, tenant = "", user } = caller;
    return { action, callId: "call-1", actor, session, tenant, user: user?.id ?? "", at: now().toISOString() };
  };

  async function addAll(caller: Caller, contents: readonly Json[], standing: Retention = { reach: "session" }) {
    const notes = contents.map((content) => toJsonContent(content));
    return store.infospace.addNotes(createOrigin(caller), notes, standing);
  }

  return {
    store: store.infospace,
    vectors: store.vectors,
    clock,
    read,
    searchWith,
    addAll,
    async add(
      caller: Caller,
      content: Json,
      label: Labelled & { readonly reach?: NoteVisibility; readonly expiresAt?: string } = {},
    ) {
      const { reach = "session", expiresAt, ...rest } = label;
      const note = { ...toJsonContent(content), ...rest };
      return store.infospace.addNotes(createOrigin(caller), [note], { reach, expiresAt });
    },
    async edit(id: number, content: Json) {
      const { version = 0, name } = (await store.infospace.noteFacts(id)) ?? {};
      return store.infospace.replaceNote(id, version, { ...toJsonContent(content), name }, now().toISOString());
    },
    async collect(caller: Caller, contents: readonly Json[], label: Labelled & { readonly action?: string } = {}) {
      const { action, ...rest } = label;
      const origin = createOrigin(caller, action);
      const id = await store.infospace.addCollection(origin, rest, { reach: "session" });
      const entries = contents.map((content) => toJsonContent(content));
      await store.infospace.append(id, entries, origin);
      await store.infospace.complete(id);
      return id;
    },
    async append(id: number, entries: Parameters<InfospaceStore["append"]>[1]) {
      return store.infospace.append(id, entries, createOrigin(ada));
    },
    async collection(id: number) {
      const collection = await store.infospace.collection(id);
      if (collection === undefined) throw new Error(`no collection ${id}`);
      return collection;
    },
  };
}

/** As the policy has it where no rule says more. */
export function allowOwner({ owner = {} }: Action, caller: Caller): ResourceAccess {
  const { tenant = "", actor, session } = caller;
  const facts = { tenant, actor, session, user: caller.user?.id ?? "" };
  const keys = ["tenant", "user", "actor", "session"] as const;
  return keys.every((key) => owner[key] === undefined || owner[key] === facts[key]) ? "allowed" : "hidden";
}
