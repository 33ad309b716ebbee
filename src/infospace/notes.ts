import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { isRecord, type Json } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import type { Runtime } from "../core/runtime.ts";
import { toOwnerScope } from "./create-infospace.ts";
import { type ExportOptions, type ExportSelection, exportLines } from "./export.ts";
import { importLines } from "./import-reader.ts";
import { createImportWriter, type ImportResult } from "./import-writer.ts";
import type {
  CollectionMembers,
  CollectOptions,
  Infospace,
  InfospaceOptions,
  NoteFile,
  NoteLabel,
  RemovedCounts,
} from "./infospace.ts";
import type { Collection, CollectionItem, NoteFacts, NoteVisibility } from "./note.ts";
import { formatHandle, parseHandle, type ResourceKind } from "./note.ts";
import {
  createNoteLister,
  type NoteEntry,
  type NotesPage,
  type NotesPageQuery,
  type NotesQuery,
  toNoteEntry,
} from "./note-list.ts";
import {
  type ItemsQuery,
  listVersions,
  type NoteVersionEntry,
  type PartQuery,
  readItems,
  readPart,
} from "./note-reader.ts";
import { type OperatorAccess, operatorCaller } from "./operator-access.ts";
import { createNoteOrigin, createWrittenEvent, type NoteAuthor } from "./provenance.ts";
import type { Quota, QuotaAmount, QuotaUsage } from "./quota.ts";
import type { NoteQuery, NoteSearch, NoteSearchHit, NoteSearchResult } from "./search/note-search.ts";

/** Who asks, as far as the host says so. */
type NotesCaller = Partial<Caller>;

export interface NotesSearchOptions extends Omit<NoteQuery, "query" | "limit"> {
  /** `note` when absent. */
  readonly kind?: ResourceKind | undefined;
  /** The handle of a collection: only what is in it. */
  readonly within?: string | undefined;
  /** 8 when absent. */
  readonly limit?: number | undefined;
}

/** What was found, best first. */
export interface NoteHit extends Partial<Pick<NoteSearchHit, "passage">> {
  readonly resource: NoteEntry;
  /** From 0 to 1. */
  readonly score: number;
  /** Where in the collection that was looked in. */
  readonly position?: number;
}

/** How much is kept, by whom, and how much may be. Expired notes count until they are removed. */
export interface NotesUsage extends QuotaUsage {
  readonly limit: QuotaAmount;
}

export interface NotesExport extends NotesQuery, ExportOptions {
  /** These alone, with what the collections among them hold. Absent: everything that fits. */
  readonly handles?: readonly string[] | undefined;
}

/**
 * What is kept, for hosts and operators. With a caller it is exactly what that caller may use, and the rest is not there;
 * without one it is everybody's. What makes something new makes it for the caller, and without one for `default` in `local`,
 * as `invoke()` does. Whatever a model can do with notes beyond this, a host can by `invoke("infospace__…")`.
 */
export interface Notes {
  list(query?: NotesPageQuery, caller?: NotesCaller): Promise<NotesPage>;
  /** Rejects with `not_found`, as everything does that takes a handle. */
  get(handle: string, caller?: NotesCaller): Promise<NoteEntry>;
  /** What it says, whole or in part; of a collection a list of what its notes say. */
  read(handle: string, part?: PartQuery, caller?: NotesCaller): Promise<Json>;
  /** What a collection holds, in order, read bit by bit. */
  items(handle: string, query?: ItemsQuery, caller?: NotesCaller): AsyncIterable<CollectionItem>;
  history(handle: string, caller?: NotesCaller): Promise<readonly NoteVersionEntry[]>;
  search(query: string, options?: NotesSearchOptions, caller?: NotesCaller): Promise<NoteSearchResult<NoteHit>>;
  /** A note. The same name again is the next version of the same note. It expires until it is saved. */
  write(content: unknown, label?: NoteLabel, caller?: NotesCaller): Promise<NoteEntry>;
  writeFile(file: NoteFile, caller?: NotesCaller): Promise<NoteEntry>;
  /** A collection of what comes, written as it comes: `{ content }` for each new note, `{ id }` for one that is there. */
  collect(members: CollectionMembers, how?: CollectOptions, caller?: NotesCaller): Promise<NoteEntry>;
  add(handle: string, members: CollectionMembers, caller?: NotesCaller): Promise<NoteEntry>;
  /** Takes notes out of a collection; answers how many places that were. */
  takeOut(handle: string, notes: readonly string[], caller?: NotesCaller): Promise<number>;
  /** Keeps it for good. It reaches whomever it did, unless that is said. */
  save(
    handle: string,
    how?: { readonly reach?: NoteVisibility; readonly name?: string },
    caller?: NotesCaller,
  ): Promise<NoteEntry>;
  remove(handle: string, caller?: NotesCaller): Promise<RemovedCounts>;
  /** Removes what has expired, which nobody can reach any more, now. */
  expire(): Promise<RemovedCounts>;
  /** How much the caller's session, user and tenant keep, and may keep; without a caller, every tenant. */
  usage(caller?: NotesCaller): Promise<readonly NotesUsage[]>;
  /** JSON lines, each with its end. */
  export(query?: NotesExport, caller?: NotesCaller): AsyncIterable<string>;
  /**
   * Everything in an export, under new ids, or nothing: `invalid_arguments` says which line is wrong. A process that dies in
   * the middle leaves only what expires.
   */
  import(
    chunks: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
    options?: { readonly signal?: AbortSignal },
    caller?: NotesCaller,
  ): Promise<ImportResult>;
}

export interface NotesOptions extends Pick<InfospaceOptions, "store" | "expiresInMs" | "mayUse"> {
  readonly quota: Quota;
  readonly runtime: Pick<Runtime, "now" | "newId">;
  readonly infospace: Infospace;
  readonly search: NoteSearch;
  readonly operators: OperatorAccess;
  /** The caller as the host described it, filled in. */
  completed(caller: NotesCaller | undefined): Caller;
  /** Without a caller: it is nobody's. */
  readonly note: (event: UnstampedEvent, caller?: Caller) => void;
}

/** Where no action made it. */
const LIBRARY = "library";
const DEFAULT_HITS = 8;

export function createNotes(parts: NotesOptions): Notes {
  const { store, runtime, infospace, search, operators, completed, note } = parts;
  const listing = createNoteLister(parts);

  /** The infospace as whoever asks has it. */
  function openView(asking: NotesCaller | undefined) {
    return asking === undefined
      ? { store, ...operators, caller: operatorCaller }
      : { store, infospace, search, caller: completed(asking) };
  }

  function createAuthor(caller: Caller, action = LIBRARY): NoteAuthor {
    return { caller, action, callId: runtime.newId() };
  }

  async function* resolveMembers(caller: Caller, members: CollectionMembers): CollectionMembers {
    requireIterable(members);
    let position = 0;
    for await (const member of members) {
      requireMember(member, position++);
      if ("content" in member) yield { ...member, content: toJson(member.content) };
      else yield { id: (await infospace.resource(formatHandle("note", member.id), caller)).id };
    }
  }

  async function selectForExport(
    { handles, history: _, signal, ...query }: NotesExport,
    asking: NotesCaller | undefined,
  ) {
    const { infospace, caller } = openView(asking);
    const found: { notes: { id: number; bytes: number }[]; collections: number[] } = { notes: [], collections: [] };
    const take = ({ kind, id, bytes }: Pick<NoteEntry, "kind" | "id" | "bytes">): void => {
      if (kind === "note") found.notes.push({ id, bytes });
      else found.collections.push(id);
    };
    if (handles !== undefined) {
      for (const handle of new Set(handles)) take(toEntry(await infospace.resource(handle, caller)));
      return found;
    }
    for (const kind of ["note", "collection"] as const) {
      if ((query.kind ?? kind) !== kind) continue;
      for await (const each of listing.every(kind, query, asking && caller)) {
        signal?.throwIfAborted();
        take(each);
      }
    }
    return { notes: found.notes.reverse(), collections: found.collections.reverse() } satisfies ExportSelection;
  }

  return {
    list: async (query = {}, asking) => listing.page(query, asking && completed(asking)),
    async get(handle, asking) {
      const { infospace, caller } = openView(asking);
      return toEntry(await infospace.resource(handle, caller));
    },
    read: async (handle, part = {}, asking) => readPart(openView(asking), handle, part),
    async *items(handle, query = {}, asking) {
      yield* readItems(openView(asking), handle, query);
    },
    history: async (handle, asking) => listVersions(openView(asking), handle),
    async search(text, { kind = "note", within, limit = DEFAULT_HITS, ...how } = {}, asking) {
      const { infospace, search, caller } = openView(asking);
      const query = { ...how, query: text, limit };
      if (within !== undefined) {
        const found = await search.within(await infospace.collection(within, caller), query);
        return {
          ...found,
          hits: found.hits.map(({ note, ...hit }) => ({ ...hit, resource: toNoteEntry("note", note) })),
        };
      }
      if (kind === "note") {
        const found = await search.notes(caller, query);
        return {
          ...found,
          hits: found.hits.map(({ note, ...hit }) => ({ ...hit, resource: toNoteEntry("note", note) })),
        };
      }
      const found = await search.collections(caller, query);
      const hits = found.hits.map(({ collection, score }) => ({
        score,
        resource: toNoteEntry("collection", collection),
      }));
      return { ...found, hits };
    },
    async write(content, label, asking) {
      return toNoteEntry(
        "note",
        await infospace.write(createAuthor(completed(asking)), toJson(content), { replaces: "saved", ...label }),
      );
    },
    async writeFile(file, asking) {
      if (!(file?.bytes instanceof Uint8Array) || typeof file.mediaType !== "string")
        throw new QmError("invalid_arguments", "a file is { bytes: Uint8Array, mediaType }");
      return toNoteEntry(
        "note",
        await infospace.writeFile(createAuthor(completed(asking)), { replaces: "saved", ...file }),
      );
    },
    async collect(members, how, asking) {
      const caller = completed(asking);
      return toNoteEntry(
        "collection",
        await infospace.collect(createAuthor(caller), resolveMembers(caller, members), { replaces: "saved", ...how }),
      );
    },
    async add(handle, members, asking) {
      const caller = completed(asking);
      return toNoteEntry(
        "collection",
        await infospace.add(createAuthor(caller), handle, resolveMembers(caller, members)),
      );
    },
    async takeOut(handle, notes, asking) {
      const { infospace, caller } = openView(asking);
      requireIterable(notes);
      return infospace.takeOut(createAuthor(caller), handle, Array.from(notes, noteId));
    },
    async save(handle, { reach, name } = {}, asking) {
      const { infospace, caller } = openView(asking);
      const present = await infospace.resource(handle, caller);
      const how = { reach: reach ?? present.reach, name };
      return toEntry(await infospace.save(createAuthor(caller), handle, how));
    },
    async remove(handle, asking) {
      const { infospace, caller } = openView(asking);
      return infospace.remove(createAuthor(caller), handle);
    },
    async expire() {
      const gone = await store.expire(runtime.now().toISOString());
      if (gone.notes + gone.collections > 0) note({ type: "resources.expired", data: gone });
      return gone;
    },
    async usage(asking) {
      const used = await store.usage(asking && toOwnerScope(completed(asking)));
      return used.map((each) => ({ ...each, limit: parts.quota[each.scope] }));
    },
    async *export(query = {}, asking) {
      yield* exportLines({ store, at: runtime.now().toISOString() }, await selectForExport(query, asking), query);
    },
    async import(chunks, { signal } = {}, asking) {
      const caller = completed(asking);
      const at = runtime.now();
      const maker = createAuthor(caller, IMPORT);
      const expiresAt = new Date(at.getTime() + parts.expiresInMs).toISOString();
      const writer = createImportWriter({ store, origin: createNoteOrigin(maker, at), expiresAt });
      try {
        const imported = await importLines(chunks, writer, signal);
        for await (const [kind, made] of writer.created()) note(createWrittenEvent(maker, kind, made), caller);
        return imported;
      } catch (thrown) {
        // What cannot be taken back expires.
        await writer.undo().catch(() => {});
        throw thrown;
      }
    },
  };
}

const IMPORT = "import";

function toEntry(resource: NoteFacts | Collection): NoteEntry {
  return toNoteEntry("count" in resource ? "collection" : "note", resource);
}

function noteId(handle: string): number {
  const reference = parseHandle(handle);
  if (reference?.kind === "note") return reference.id;
  throw new QmError("invalid_arguments", `${quoteName(String(handle))} is not the handle of a note`);
}

function requireIterable(members: unknown): void {
  const isThat = typeof members === "object" && members !== null;
  if (isThat && (Symbol.iterator in members || Symbol.asyncIterator in members)) return;
  throw new QmError(
    "invalid_arguments",
    "what is to be collected is neither a list nor anything else that can be iterated",
  );
}

/** A row with an id of its own must not be taken for the note of that number. */
function requireMember(member: unknown, position: number): void {
  if (isRecord(member)) {
    const keys = Object.keys(member);
    if (keys.length === 1 && Number.isSafeInteger(member.id)) return;
    if ("content" in member && keys.every((key) => MEMBER_KEYS.has(key))) return;
  }
  throw new QmError("invalid_arguments", `item ${position} is neither { content } nor the { id } of a note`, {
    hint: "Wrap every value: rows.map((content) => ({ content })).",
  });
}

const MEMBER_KEYS: ReadonlySet<string> = new Set(["content", "name", "properties"]);

/** As JSON has it, because that is what is kept: a Date is a text by then. */
function toJson(value: unknown): Json {
  try {
    const text = JSON.stringify(value);
    if (text !== undefined) return JSON.parse(text) as Json;
  } catch (thrown) {
    throw new QmError("invalid_arguments", `a note must be JSON: ${getErrorMessage(thrown)}`, { cause: thrown });
  }
  throw new QmError("invalid_arguments", `a note must be JSON, and ${typeof value} is not`);
}
