import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { isRecord, type Json } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import type { Runtime } from "../core/runtime.ts";
import { toOwnerScope } from "./create-infospace.ts";
import { type ExportOptions, exportLines } from "./export.ts";
import { importLines } from "./import-reader.ts";
import { createImportWriter, type ImportResult } from "./import-writer.ts";
import type { CollectionMembers, CollectOptions, InfospaceOptions, NoteFile, NoteLabel } from "./infospace.ts";
import type { RemovedCounts } from "./infospace-store.ts";
import { type TextChunks, toJson } from "./json-text.ts";
import { type CollectionItem, formatHandle, type NoteVisibility, parseHandle, type ResourceKind } from "./note.ts";
import type { NoteEntry, NotesPage, NotesPageQuery, NotesQuery } from "./note-list.ts";
import { createNoteLister, toNoteEntry } from "./note-list.ts";
import type { ItemsQuery, NoteVersionEntry, PartQuery } from "./note-reader.ts";
import { listVersions, readItems, readPart } from "./note-reader.ts";
import { type OperatorAccess, operatorCaller } from "./operator-access.ts";
import { createNoteOrigin, createWrittenEvent, type NoteAuthor } from "./provenance.ts";
import type { Quota, QuotaAmount, QuotaUsage } from "./quota.ts";
import type { NoteQuery, NoteSearch, NoteSearchHit, NoteSearchResult } from "./search/note-search.ts";

/** A caller as the host describes it. */
type NotesCaller = Partial<Caller>;

/**
 * The notes API for hosts and operators. With a caller, methods see exactly what that caller may use. Without one, they see
 * everything, and new resources belong to `default` in `local`, as with `invoke()`. Methods that take a handle reject with
 * `not_found` if it is unknown. Everything else that models can do with notes is available by `invoke("infospace__…")`.
 */
export interface Notes {
  list(query?: NotesPageQuery, caller?: NotesCaller): Promise<NotesPage>;
  get(handle: string, caller?: NotesCaller): Promise<NoteEntry>;
  /** The content of a note, or the list of contents of a collection, whole or in part. */
  read(handle: string, part?: PartQuery, caller?: NotesCaller): Promise<Json>;
  /** The items of a collection in order, read portion by portion. */
  items(handle: string, query?: ItemsQuery, caller?: NotesCaller): AsyncIterable<CollectionItem>;
  history(handle: string, caller?: NotesCaller): Promise<readonly NoteVersionEntry[]>;
  search(query: string, options?: NotesSearchOptions, caller?: NotesCaller): Promise<NoteSearchResult<NoteHit>>;
  /** Writes a note that expires until it is saved. The same name again makes its next version. */
  write(content: unknown, label?: NoteLabel, caller?: NotesCaller): Promise<NoteEntry>;
  writeFile(file: NoteFile, caller?: NotesCaller): Promise<NoteEntry>;
  /** Writes a collection as its members arrive: `{ content }` for a new note, `{ id }` for an existing one. */
  collect(members: CollectionMembers, options?: CollectOptions, caller?: NotesCaller): Promise<NoteEntry>;
  add(handle: string, members: CollectionMembers, caller?: NotesCaller): Promise<NoteEntry>;
  /** Removes notes from a collection. Returns how many positions were removed. */
  takeOut(handle: string, notes: readonly string[], caller?: NotesCaller): Promise<number>;
  /** Removes the expiry. Keeps the reach unless one is given. */
  save(handle: string, options?: { reach?: NoteVisibility; name?: string }, caller?: NotesCaller): Promise<NoteEntry>;
  remove(handle: string, caller?: NotesCaller): Promise<RemovedCounts>;
  /** Deletes expired resources from the store now. */
  expire(): Promise<RemovedCounts>;
  /** Usage and limits of the caller's session, user and tenant. Without a caller: of every tenant. */
  usage(caller?: NotesCaller): Promise<readonly NotesUsage[]>;
  /** JSON lines, each with its line break. */
  export(query?: NotesExport, caller?: NotesCaller): AsyncIterable<string>;
  /**
   * Imports everything under new ids, or nothing: `invalid_arguments` names the wrong line. After a crash only resources that
   * expire are left.
   */
  import(chunks: TextChunks, options?: { signal?: AbortSignal }, caller?: NotesCaller): Promise<ImportResult>;
}

export interface NotesSearchOptions extends Omit<NoteQuery, "query" | "limit"> {
  /** Default `note`. */
  readonly kind?: ResourceKind | undefined;
  /** The handle of a collection to search in. */
  readonly within?: string | undefined;
  /** Default 8. */
  readonly limit?: number | undefined;
}

export interface NoteHit extends Partial<Pick<NoteSearchHit, "passage">> {
  readonly resource: NoteEntry;
  /** From 0 to 1. */
  readonly score: number;
  /** The position in the searched collection. */
  readonly position?: number;
}

/** Expired notes count until they are removed. */
export type NotesUsage = QuotaUsage & { readonly limit: QuotaAmount };

/** `handles`: only these, with the notes of their collections. */
export type NotesExport = NotesQuery & ExportOptions & { readonly handles?: readonly string[] | undefined };

interface NotesOptions extends Pick<InfospaceOptions, "store" | "expiresInMs" | "mayUse"> {
  readonly quota: Quota;
  readonly runtime: Pick<Runtime, "now" | "newId">;
  readonly infospace: OperatorAccess["infospace"];
  readonly search: NoteSearch;
  readonly operators: OperatorAccess;
  /** Fills in the defaults of a caller. Throws if its actor cannot be used. */
  toCaller(caller: NotesCaller | undefined): Caller;
  readonly note: (event: UnstampedEvent, caller?: Caller) => void;
}

const DEFAULT_HITS = 8;

export function createNotes(parts: NotesOptions): Notes {
  const { store, runtime, infospace, search, operators, toCaller, note } = parts;
  const lister = createNoteLister(parts);

  function openView(caller: NotesCaller | undefined) {
    return caller === undefined
      ? { store, ...operators, caller: operatorCaller }
      : { store, infospace, search, caller: toCaller(caller) };
  }

  function createAuthor(caller: Caller, action = "library"): NoteAuthor {
    return { caller, action, callId: runtime.newId() };
  }

  async function* resolveMembers(caller: Caller, members: CollectionMembers): CollectionMembers {
    requireIterable(members);
    let position = 0;
    for await (const member of members) {
      requireMember(member, position++);
      if ("content" in member) yield { ...member, content: requireJson(member.content) };
      else yield { id: (await infospace.resource(formatHandle("note", member.id), caller)).id };
    }
  }

  async function selectForExport({ handles, history: _, signal, ...query }: NotesExport, as: NotesCaller | undefined) {
    const { infospace, caller } = openView(as);
    const notes: { id: number; bytes: number }[] = [];
    const collections: number[] = [];
    const take = ({ kind, id, bytes }: Pick<NoteEntry, "kind" | "id" | "bytes">): void => {
      if (kind === "note") notes.push({ id, bytes });
      else collections.push(id);
    };
    if (handles !== undefined) {
      for (const handle of new Set(handles)) take(toNoteEntry(await infospace.resource(handle, caller)));
      return { notes, collections };
    }
    for (const kind of ["note", "collection"] as const) {
      if ((query.kind ?? kind) !== kind) continue;
      for await (const entry of lister.every(kind, query, as && caller)) {
        signal?.throwIfAborted();
        take(entry);
      }
    }
    return { notes: notes.reverse(), collections: collections.reverse() };
  }

  return {
    list: async (query = {}, as) => lister.page(query, as && toCaller(as)),
    async get(handle, as) {
      const { infospace, caller } = openView(as);
      return toNoteEntry(await infospace.resource(handle, caller));
    },
    read: async (handle, part = {}, as) => readPart(openView(as), handle, part),
    async *items(handle, query = {}, as) {
      yield* readItems(openView(as), handle, query);
    },
    history: async (handle, as) => listVersions(openView(as), handle),
    async search(text, { kind = "note", within, limit = DEFAULT_HITS, ...options } = {}, as) {
      const { infospace, search, caller } = openView(as);
      const query = { ...options, query: text, limit };
      if (within === undefined && kind !== "note") {
        const { hits, ...found } = await search.collections(caller, query);
        return { ...found, hits: hits.map(({ collection, score }) => ({ score, resource: toNoteEntry(collection) })) };
      }
      const found: NoteSearchResult<NoteSearchHit> =
        within === undefined
          ? await search.notes(caller, query)
          : await search.within(await infospace.collection(within, caller), query);
      return { ...found, hits: found.hits.map(({ note, ...hit }) => ({ ...hit, resource: toNoteEntry(note) })) };
    },
    async write(content, label, as) {
      const options = { replaces: "saved", ...label } as const;
      return toNoteEntry(await infospace.write(createAuthor(toCaller(as)), requireJson(content), options));
    },
    async writeFile(file, as) {
      if (!(file?.bytes instanceof Uint8Array) || typeof file.mediaType !== "string")
        throw new QmError("invalid_arguments", "a file is { bytes: Uint8Array, mediaType }");
      return toNoteEntry(await infospace.writeFile(createAuthor(toCaller(as)), { replaces: "saved", ...file }));
    },
    async collect(members, options, as) {
      const caller = toCaller(as);
      const all = resolveMembers(caller, members);
      return toNoteEntry(await infospace.collect(createAuthor(caller), all, { replaces: "saved", ...options }));
    },
    async add(handle, members, as) {
      const caller = toCaller(as);
      return toNoteEntry(await infospace.add(createAuthor(caller), handle, resolveMembers(caller, members)));
    },
    async takeOut(handle, notes, as) {
      const { infospace, caller } = openView(as);
      requireIterable(notes);
      return infospace.takeOut(createAuthor(caller), handle, Array.from(notes, parseNoteId));
    },
    async save(handle, { reach, name } = {}, as) {
      const { infospace, caller } = openView(as);
      const present = await infospace.resource(handle, caller);
      const options = { reach: reach ?? present.reach, name };
      return toNoteEntry(await infospace.save(createAuthor(caller), handle, options));
    },
    async remove(handle, as) {
      const { infospace, caller } = openView(as);
      return infospace.remove(createAuthor(caller), handle);
    },
    async expire() {
      const expired = await store.expire(runtime.now().toISOString());
      if (expired.notes + expired.collections > 0) note({ type: "resources.expired", data: expired });
      return expired;
    },
    async usage(as) {
      const used = await store.usage(as && toOwnerScope(toCaller(as)));
      return used.map((each) => ({ ...each, limit: parts.quota[each.scope] }));
    },
    async *export(query = {}, as) {
      yield* exportLines(store, runtime.now().toISOString(), await selectForExport(query, as), query);
    },
    async import(chunks, { signal } = {}, as) {
      const caller = toCaller(as);
      const at = runtime.now();
      const maker = createAuthor(caller, "import");
      const expiresAt = new Date(at.getTime() + parts.expiresInMs).toISOString();
      const writer = createImportWriter({ store, origin: createNoteOrigin(maker, at), expiresAt });
      try {
        const imported = await importLines(chunks, writer, signal);
        for await (const made of writer.created()) note(createWrittenEvent(maker, made), caller);
        return imported;
      } catch (thrown) {
        // If undoing fails, the rest expires.
        await writer.undo().catch(() => {});
        throw thrown;
      }
    },
  };
}

function parseNoteId(handle: string): number {
  const reference = parseHandle(handle);
  if (reference?.kind === "note") return reference.id;
  throw new QmError("invalid_arguments", `${quoteName(String(handle))} is not the handle of a note`);
}

function requireIterable(members: unknown): void {
  const isObject = typeof members === "object" && members !== null;
  if (isObject && (Symbol.iterator in members || Symbol.asyncIterator in members)) return;
  throw new QmError("invalid_arguments", "the members are neither a list nor iterable");
}

/** A row with other fields beside its id must not be taken for the note with that number. */
function requireMember(member: unknown, position: number): void {
  if (isRecord(member)) {
    const keys = Object.keys(member);
    if (keys.length === 1 && Number.isSafeInteger(member.id)) return;
    if ("content" in member && keys.every((key) => ["content", "name", "properties"].includes(key))) return;
  }
  const hint = "Wrap every value: rows.map((content) => ({ content })).";
  throw new QmError("invalid_arguments", `item ${position} is neither { content } nor the { id } of a note`, { hint });
}

function requireJson(value: unknown): Json {
  const json = toJson(value, (reason, cause) => {
    return new QmError("invalid_arguments", `a note must be JSON: ${reason}`, { cause });
  });
  if (json !== undefined) return json;
  throw new QmError("invalid_arguments", `a note must be JSON, and ${typeof value} is not`);
}
