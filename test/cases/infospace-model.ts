import { QmError } from "../../src/core/errors.ts";
import type { Json, JsonObject } from "../../src/core/json.ts";
import {
  type InfospaceStore,
  MAX_VERSIONS,
  type NewNote,
  type OwnerScope,
  type ResourceQuery,
  type Retention,
  type SaveRequest,
} from "../../src/infospace/infospace-store.ts";
import {
  type Collection,
  listSources,
  mergeSources,
  type Note,
  type NoteFacts,
  type NoteOrigin,
  type NoteVisibility,
  noteVisibilities,
} from "../../src/infospace/note.ts";
import { type Quota, quotaExceededError, quotaScopes } from "../../src/infospace/quota.ts";
import { computeUsage, findPassed, isOwnedBy, type KeptCollection, type KeptNote } from "./infospace-usage-model.ts";

/** A simple reference implementation of the store, without marks. */
export function infospaceModel(
  now: () => string,
  quota?: Quota,
): Omit<InfospaceStore, "mark" | "limitedTo" | "holdSources" | "heldSources"> {
  const notes = new Map<number, KeptNote>();
  const collections = new Map<number, KeptCollection>();
  const last = { note: 0, collection: 0 };
  const isOver = ({ expiresAt }: Pick<Retention, "expiresAt">, at = now()) =>
    expiresAt !== undefined && expiresAt <= at;

  function getNote(id: number): KeptNote | undefined {
    const kept = notes.get(id);
    return kept === undefined || isOver(kept.note) ? undefined : kept;
  }

  function getCollection(id: number): KeptCollection | undefined {
    const kept = collections.get(id);
    return kept === undefined || isOver(kept.facts) ? undefined : kept;
  }

  /** Rolls back a change that exceeds the quota. */
  async function within<T>(work: () => Promise<T>): Promise<T> {
    if (quota === undefined) return work();
    const before = structuredClone({ notes, collections, last });
    const result = await work();
    const excess = findPassed(quota, computeUsage(before), computeUsage({ notes, collections }));
    if (excess === undefined) return result;
    replaceEntries(notes, before.notes);
    replaceEntries(collections, before.collections);
    Object.assign(last, before.last);
    throw quotaExceededError(excess);
  }

  function shown({ facts, versions }: KeptCollection): Collection {
    return { ...facts, ...measure(versions.at(-1) ?? []) };
  }

  function measure(ids: readonly number[]): Pick<Collection, "count" | "bytes"> {
    const held = ids.flatMap((id) => getNote(id)?.note ?? []);
    return { count: held.length, bytes: held.reduce((sum, { bytes }) => sum + bytes, 0) };
  }

  function make(origin: NoteOrigin, { reach, expiresAt }: Retention, made: NewNote, partOf?: number): number {
    last.note += 1;
    const note: Note = {
      id: last.note,
      ...(made.name === undefined ? {} : { name: made.name }),
      properties: made.properties ?? {},
      origin,
      reach,
      version: 1,
      changedAt: origin.at,
      ...(expiresAt === undefined ? {} : { expiresAt }),
      ...(partOf === undefined ? {} : { partOf }),
      ...said(made),
    };
    notes.set(last.note, { note, past: [] });
    return last.note;
  }

  /** Gives notes the retention of a collection. */
  function hold(
    ids: readonly number[],
    { reach, expiresAt }: { reach?: NoteVisibility; expiresAt?: string | undefined },
  ): void {
    for (const kept of ids.flatMap((id) => getNote(id) ?? [])) {
      const { expiresAt: own, ...rest } = kept.note;
      const until = own === undefined || expiresAt === undefined ? undefined : own > expiresAt ? own : expiresAt;
      const widest = noteVisibilities.findLast((each) => each === rest.reach || each === reach) ?? rest.reach;
      kept.note = { ...rest, reach: widest, ...(until === undefined ? {} : { expiresAt: until }) };
    }
  }

  /** Adds source actions to a collection. */
  function came(kept: KeptCollection, actions: readonly string[]): void {
    kept.facts = { ...kept.facts, origin: mergeSources(kept.facts.origin, actions) };
  }

  function save({ kind, id, reach, name, at }: SaveRequest): NoteFacts | Collection | undefined {
    const named = name === undefined ? {} : { name };
    if (kind === "note") {
      const kept = getNote(id);
      if (kept === undefined) return undefined;
      const { expiresAt: _until, partOf: _of, ...rest } = kept.note;
      kept.note = { ...rest, ...named, reach, changedAt: at };
      return toFacts(kept.note);
    }
    const kept = getCollection(id);
    if (kept === undefined) return undefined;
    const { expiresAt: _until, ...rest } = kept.facts;
    kept.facts = { ...rest, ...named, reach, changedAt: at };
    hold(kept.versions.flat(), {});
    hold(kept.versions.at(-1) ?? [], { reach });
    return shown(kept);
  }

  /** Removes a collection, and the notes made for one that no collection holds any more. */
  function drop(id: number, which: (note: Note) => boolean): number {
    const held = new Set(collections.get(id)?.versions.flat());
    collections.delete(id);
    const elsewhere = new Set(
      [...collections.values()].flatMap((kept) => (isOver(kept.facts) ? [] : kept.versions.flat())),
    );
    const gone = [...held].filter((each) => {
      const kept = notes.get(each);
      return kept?.note.partOf !== undefined && which(kept.note) && !elsewhere.has(each);
    });
    for (const each of gone) notes.delete(each);
    return gone.length;
  }

  function found(query: Omit<ResourceQuery, "limit">): readonly (NoteFacts | Collection)[] {
    const { kind, whose, name, tenant, session, action, callId, saved, parts = false, before } = query;
    const all =
      kind === "note"
        ? [...notes.keys()].flatMap((id) => getNote(id) ?? []).map((kept) => toFacts(kept.note))
        : [...collections.keys()].flatMap((id) => getCollection(id) ?? []).map(shown);
    return all
      .filter(
        (each) =>
          (whose === undefined || reached(each, whose)) &&
          (name === undefined || each.name === name) &&
          (tenant === undefined || (each.origin.tenant ?? "") === tenant) &&
          (session === undefined || each.origin.session === session) &&
          (action === undefined || each.origin.action === action) &&
          (callId === undefined || each.origin.callId === callId) &&
          (saved === undefined || saved === (each.expiresAt === undefined)) &&
          (parts || !("partOf" in each)) &&
          (before === undefined || each.id < before),
      )
      .sort((one, other) => other.id - one.id);
  }

  const model: ReturnType<typeof infospaceModel> = {
    async addNotes(origin, made, standing) {
      const first = last.note + 1;
      for (const each of made) make(origin, standing, each);
      return first;
    },
    note: async (id) => getNote(id)?.note,
    noteFacts: async (id) => {
      const kept = getNote(id);
      return kept === undefined ? undefined : toFacts(kept.note);
    },
    notes: async (ids) => [...new Set(ids)].flatMap((id) => getNote(id)?.note ?? []),
    async replaceNote(id, version, content, at, sources = []) {
      const kept = getNote(id);
      if (kept === undefined || kept.note.version !== version) return undefined;
      kept.past.push(kept.note);
      kept.past.splice(0, kept.past.length - MAX_VERSIONS);
      const { name = kept.note.name, properties = kept.note.properties } = content;
      const named = name === undefined ? {} : { name };
      const origin = mergeSources(kept.note.origin, sources);
      kept.note = { ...kept.note, ...said(content), ...named, origin, properties, version: version + 1, changedAt: at };
      for (const each of collections.values()) if (each.versions.flat().includes(id)) came(each, sources);
      return toFacts(kept.note);
    },
    history: async (id) =>
      (getNote(id)?.past ?? []).map(({ version, format, hash, bytes, changedAt }) => ({
        version,
        format,
        hash,
        bytes,
        changedAt,
      })),
    async noteVersion(id, version) {
      const kept = getNote(id);
      const then = [...(kept?.past ?? []), ...(kept === undefined ? [] : [kept.note])].find(
        (each) => each.version === version,
      );
      if (kept === undefined || then === undefined) return undefined;
      const { format, hash, bytes, changedAt, content } = then;
      return { ...kept.note, version, format, hash, bytes, changedAt, content };
    },
    async addCollection(origin, { name, properties = {} }, { reach, expiresAt }) {
      last.collection += 1;
      const facts = {
        id: last.collection,
        ...(name === undefined ? {} : { name }),
        properties,
        origin,
        reach,
        version: 1,
        changedAt: origin.at,
        ...(expiresAt === undefined ? {} : { expiresAt }),
        complete: false,
      };
      collections.set(last.collection, { facts, versions: [[]] });
      return last.collection;
    },
    async collection(id) {
      const kept = getCollection(id);
      return kept === undefined ? undefined : shown(kept);
    },
    async collectionVersion(id, version) {
      const held = getCollection(id)?.versions[version - 1];
      return held === undefined ? undefined : measure(held);
    },
    async append(id, entries, origin) {
      const kept = getCollection(id);
      if (kept === undefined) return undefined;
      if (entries.some((entry) => "id" in entry && getNote(entry.id) === undefined))
        throw new QmError("not_found", "a note");
      const ids = entries.map((entry) => ("id" in entry ? entry.id : make(origin, kept.facts, entry, id)));
      hold(ids, kept.facts);
      kept.versions.at(-1)?.push(...ids);
      if (ids.length > 0)
        came(kept, [origin, ...ids.flatMap((each) => getNote(each)?.note.origin ?? [])].flatMap(listSources));
      if (entries.length > 0) kept.facts = { ...kept.facts, changedAt: origin.at };
      return shown(kept);
    },
    async absorb(id, by, at) {
      const [kept, next] = [getCollection(id), getCollection(by)];
      if (kept === undefined || next === undefined || id === by) return undefined;
      came(kept, listSources(next.facts.origin));
      kept.facts = { ...kept.facts, changedAt: at };
      const held = [...(next.versions.at(-1) ?? [])];
      kept.versions.at(-1)?.push(...held);
      // Also notes that both collections hold.
      for (const each of (kept.versions.at(-1) ?? []).flatMap((note) => notes.get(note) ?? [])) {
        if (each.note.partOf === by) each.note = { ...each.note, partOf: id };
      }
      hold(kept.versions.flat(), { expiresAt: kept.facts.expiresAt });
      hold(held, kept.facts);
      drop(by, () => true);
      return shown(kept);
    },
    async complete(id) {
      const kept = collections.get(id);
      if (kept !== undefined) kept.facts = { ...kept.facts, complete: true };
    },
    async replaceCollection(id, by, at) {
      const [kept, next] = [getCollection(id), getCollection(by)];
      if (kept === undefined || next === undefined || id === by) return undefined;
      const { expiresAt, ...rest } = kept.facts;
      const other = next.facts.expiresAt;
      const until = expiresAt === undefined || other === undefined ? undefined : expiresAt > other ? expiresAt : other;
      const properties: JsonObject =
        Object.keys(next.facts.properties).length > 0 ? next.facts.properties : rest.properties;
      kept.facts = {
        ...rest,
        properties,
        version: rest.version + 1,
        complete: next.facts.complete,
        changedAt: at,
        ...(until === undefined ? {} : { expiresAt: until }),
      };
      came(kept, listSources(next.facts.origin));
      const held = [...(next.versions.at(-1) ?? [])];
      kept.versions.push(held);
      for (const each of held.flatMap((note) => notes.get(note) ?? [])) {
        if (each.note.partOf === by) each.note = { ...each.note, partOf: id };
      }
      hold(kept.versions.flat(), { expiresAt: until });
      hold(held, { reach: rest.reach, expiresAt: until });
      drop(by, () => true);
      return shown(kept);
    },
    async removeItems(id, gone, at) {
      const kept = getCollection(id);
      const held = kept?.versions.at(-1) ?? [];
      const places = held.filter((each) => gone.includes(each) && getNote(each) !== undefined).length;
      if (kept === undefined || places === 0) return 0;
      kept.versions.push(held.filter((each) => !gone.includes(each)));
      kept.facts = { ...kept.facts, version: kept.facts.version + 1, changedAt: at };
      return places;
    },
    async items(id, { version, from, limit }) {
      const kept = getCollection(id);
      const held = kept?.versions[(version ?? kept.facts.version) - 1] ?? [];
      return held
        .flatMap((each, position) => {
          const found = getNote(each)?.note;
          return found === undefined
            ? []
            : [{ position, id: each, content: found.content, bytes: found.bytes, hash: found.hash }];
        })
        .filter(({ position }) => position >= from)
        .slice(0, limit);
    },
    async positions(id, version, wanted) {
      const held = getCollection(id)?.versions[version - 1] ?? [];
      const there = wanted.filter((each) => held.includes(each) && getNote(each) !== undefined);
      return new Map(there.map((each) => [each, held.indexOf(each)]));
    },
    save: async (kind, id, how) => save({ kind, id, ...how }),
    async saveAll(list) {
      for (const each of list) save(each);
    },
    async remove(kind, id) {
      if (kind === "collection") {
        if (getCollection(id) === undefined) return { notes: 0, collections: 0 };
        return { notes: drop(id, () => true), collections: 1 };
      }
      if (getNote(id) === undefined) return { notes: 0, collections: 0 };
      notes.delete(id);
      for (const kept of collections.values()) {
        if (kept.versions.at(-1)?.includes(id)) kept.facts = { ...kept.facts, changedAt: now() };
      }
      return { notes: 1, collections: 0 };
    },
    async expire(at) {
      const late = [...notes].filter(([, { note }]) => isOver(note, at));
      for (const [id] of late) notes.delete(id);
      const ended = [...collections].filter(([, { facts }]) => isOver(facts, at));
      const orphans = ended.map(([id]) => drop(id, ({ expiresAt }) => expiresAt === undefined));
      return { notes: orphans.reduce((sum, count) => sum + count, late.length), collections: ended.length };
    },
    list: (async (query: ResourceQuery) => found(query).slice(0, query.limit)) as InfospaceStore["list"],
    count: async (query) => found(query).length,
    async usage(of) {
      const wanted = computeUsage({ notes, collections }).filter((each) =>
        of === undefined ? each.scope === "tenant" : isOwnedBy(each, of),
      );
      return wanted.sort((one, other) => quotaScopes.indexOf(one.scope) - quotaScopes.indexOf(other.scope));
    },
    async contents(of, { allows = () => true } = {}) {
      const ids = "collection" in of ? (getCollection(of.collection)?.versions.at(-1) ?? []) : [...notes.keys()];
      const all = ids
        .flatMap((id) => getNote(id)?.note ?? [])
        .filter((note) => "collection" in of || (reached(note, of) && allows(note.origin)));
      return new Map(all.map(({ id, hash }) => [id, hash]));
    },
  };
  return {
    ...model,
    addNotes: (...given) => within(() => model.addNotes(...given)),
    replaceNote: (...given) => within(() => model.replaceNote(...given)),
    addCollection: (...given) => within(() => model.addCollection(...given)),
    append: (...given) => within(() => model.append(...given)),
    absorb: (...given) => within(() => model.absorb(...given)),
    replaceCollection: (...given) => within(() => model.replaceCollection(...given)),
    removeItems: (...given) => within(() => model.removeItems(...given)),
  };
}

function replaceEntries<T>(map: Map<number, T>, by: ReadonlyMap<number, T>): void {
  map.clear();
  for (const [id, kept] of by) map.set(id, kept);
}

function said({ format, text, bytes, hash }: NewNote): Pick<Note, "format" | "bytes" | "hash" | "content"> {
  return { format, bytes, hash, content: JSON.parse(text) as Json };
}

function toFacts({ content: _content, ...facts }: Note): NoteFacts {
  return facts;
}

function reached({ origin, reach }: Pick<NoteFacts, "origin" | "reach">, whose: OwnerScope): boolean {
  const same = (...keys: readonly ("tenant" | "user" | "session" | "actor")[]) =>
    keys.every((key) => (origin[key] ?? "") === (whose[key] ?? ""));
  if (reach === "tenant") return same("tenant");
  return reach === "actor" ? same("tenant", "user", "actor") : same("tenant", "user", "session");
}
