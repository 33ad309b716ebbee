import type { Caller } from "../core/caller.ts";
import { messageOf, QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { isRecord, type Json } from "../core/json.ts";
import { quoted } from "../core/names.ts";
import type { Runtime } from "../core/runtime.ts";
import { whoseOf } from "./create-infospace.ts";
import { type ExportOptions, exportLines, type Selection } from "./export.ts";
import { handleOf, parseHandle, type ResourceKind } from "./handle.ts";
import { importLines } from "./import.ts";
import { createImportWriter, type Imported } from "./import-writer.ts";
import type { Collecting, FileContent, Infospace, InfospaceParts, Label, Members, Removed } from "./infospace.ts";
import { createListing, type Kept, kept, type NotesPage, type NotesQuery, type PageQuery } from "./listing.ts";
import { type Maker, originOf, writtenEvent } from "./maker.ts";
import type { Collection, Item, NoteFacts, Reach } from "./note.ts";
import { type Operators, operator } from "./operators.ts";
import type { Amount, Quota, Usage } from "./quota.ts";
import { type ItemsQuery, type KeptVersion, type PartQuery, readItems, readPart, versionsOf } from "./reading.ts";
import type { FoundNote, NoteQuery, NoteSearch, NotesFound } from "./search/note-search.ts";

/** Who asks, as far as the host says so. */
type Asking = Partial<Caller>;

export interface NotesSearch extends Omit<NoteQuery, "query" | "limit"> {
  /** `note` when absent. */
  readonly kind?: ResourceKind | undefined;
  /** The handle of a collection: only what is in it. */
  readonly within?: string | undefined;
  /** 8 when absent. */
  readonly limit?: number | undefined;
}

/** What was found, best first. */
export interface FoundKept extends Partial<Pick<FoundNote, "passage">> {
  readonly resource: Kept;
  /** From 0 to 1. */
  readonly score: number;
  /** Where in the collection that was looked in. */
  readonly position?: number;
}

/** How much is kept, by whom, and how much may be. Expired notes count until they are removed. */
export interface NotesUsage extends Usage {
  readonly limit: Amount;
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
  list(query?: PageQuery, caller?: Asking): Promise<NotesPage>;
  /** Rejects with `not_found`, as everything does that takes a handle. */
  get(handle: string, caller?: Asking): Promise<Kept>;
  /** What it says, whole or in part; of a collection a list of what its notes say. */
  read(handle: string, part?: PartQuery, caller?: Asking): Promise<Json>;
  /** What a collection holds, in order, read bit by bit. */
  items(handle: string, query?: ItemsQuery, caller?: Asking): AsyncIterable<Item>;
  history(handle: string, caller?: Asking): Promise<readonly KeptVersion[]>;
  search(query: string, options?: NotesSearch, caller?: Asking): Promise<NotesFound<FoundKept>>;
  /** A note. The same name again is the next version of the same note. It expires until it is saved. */
  write(content: unknown, label?: Label, caller?: Asking): Promise<Kept>;
  writeFile(file: FileContent, caller?: Asking): Promise<Kept>;
  /** A collection of what comes, written as it comes: `{ content }` for each new note, `{ id }` for one that is there. */
  collect(members: Members, how?: Collecting, caller?: Asking): Promise<Kept>;
  add(handle: string, members: Members, caller?: Asking): Promise<Kept>;
  /** Takes notes out of a collection; answers how many places that were. */
  takeOut(handle: string, notes: readonly string[], caller?: Asking): Promise<number>;
  /** Keeps it for good. It reaches whomever it did, unless that is said. */
  save(handle: string, how?: { readonly reach?: Reach; readonly name?: string }, caller?: Asking): Promise<Kept>;
  remove(handle: string, caller?: Asking): Promise<Removed>;
  /** Removes what has expired, which nobody can reach any more, now. */
  expire(): Promise<Removed>;
  /** How much the caller's session, user and tenant keep, and may keep; without a caller, every tenant. */
  usage(caller?: Asking): Promise<readonly NotesUsage[]>;
  /** JSON lines, each with its end. */
  export(query?: NotesExport, caller?: Asking): AsyncIterable<string>;
  /**
   * Everything in an export, under new ids, or nothing: `invalid_arguments` says which line is wrong. A process that dies in
   * the middle leaves only what expires.
   */
  import(
    chunks: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
    options?: { readonly signal?: AbortSignal },
    caller?: Asking,
  ): Promise<Imported>;
}

export interface NotesParts extends Pick<InfospaceParts, "store" | "expiresInMs" | "mayUse"> {
  readonly quota: Quota;
  readonly runtime: Pick<Runtime, "now" | "newId">;
  readonly infospace: Infospace;
  readonly search: NoteSearch;
  readonly operators: Operators;
  /** The caller as the host described it, filled in. */
  completed(caller: Asking | undefined): Caller;
  /** Without a caller: it is nobody's. */
  readonly note: (event: UnstampedEvent, caller?: Caller) => void;
}

/** Where no action made it. */
const LIBRARY = "library";
const FOUND = 8;

export function createNotes(parts: NotesParts): Notes {
  const { store, runtime, infospace, search, operators, completed, note } = parts;
  const listing = createListing(parts);

  /** The infospace as whoever asks has it. */
  function seenBy(asking: Asking | undefined) {
    return asking === undefined
      ? { store, ...operators, caller: operator }
      : { store, infospace, search, caller: completed(asking) };
  }

  function makerFor(caller: Caller, action = LIBRARY): Maker {
    return { caller, action, callId: runtime.newId() };
  }

  async function* membersFor(caller: Caller, members: Members): Members {
    requireIterable(members);
    let position = 0;
    for await (const member of members) {
      requireMember(member, position++);
      if ("content" in member) yield { ...member, content: asJson(member.content) };
      else yield { id: (await infospace.resource(handleOf("note", member.id), caller)).id };
    }
  }

  async function selected({ handles, history: _, signal, ...query }: NotesExport, asking: Asking | undefined) {
    const { infospace, caller } = seenBy(asking);
    const found: { notes: { id: number; bytes: number }[]; collections: number[] } = { notes: [], collections: [] };
    const take = ({ kind, id, bytes }: Pick<Kept, "kind" | "id" | "bytes">): void => {
      if (kind === "note") found.notes.push({ id, bytes });
      else found.collections.push(id);
    };
    if (handles !== undefined) {
      for (const handle of new Set(handles)) take(keptOf(await infospace.resource(handle, caller)));
      return found;
    }
    for (const kind of ["note", "collection"] as const) {
      if ((query.kind ?? kind) !== kind) continue;
      for await (const each of listing.every(kind, query, asking && caller)) {
        signal?.throwIfAborted();
        take(each);
      }
    }
    return { notes: found.notes.reverse(), collections: found.collections.reverse() } satisfies Selection;
  }

  return {
    list: async (query = {}, asking) => listing.page(query, asking && completed(asking)),
    async get(handle, asking) {
      const { infospace, caller } = seenBy(asking);
      return keptOf(await infospace.resource(handle, caller));
    },
    read: async (handle, part = {}, asking) => readPart(seenBy(asking), handle, part),
    async *items(handle, query = {}, asking) {
      yield* readItems(seenBy(asking), handle, query);
    },
    history: async (handle, asking) => versionsOf(seenBy(asking), handle),
    async search(text, { kind = "note", within, limit = FOUND, ...how } = {}, asking) {
      const { infospace, search, caller } = seenBy(asking);
      const query = { ...how, query: text, limit };
      if (within !== undefined) {
        const found = await search.within(await infospace.collection(within, caller), query);
        return { ...found, hits: found.hits.map(({ note, ...hit }) => ({ ...hit, resource: kept("note", note) })) };
      }
      if (kind === "note") {
        const found = await search.notes(caller, query);
        return { ...found, hits: found.hits.map(({ note, ...hit }) => ({ ...hit, resource: kept("note", note) })) };
      }
      const found = await search.collections(caller, query);
      const hits = found.hits.map(({ collection, score }) => ({ score, resource: kept("collection", collection) }));
      return { ...found, hits };
    },
    async write(content, label, asking) {
      return kept(
        "note",
        await infospace.write(makerFor(completed(asking)), asJson(content), { replaces: "saved", ...label }),
      );
    },
    async writeFile(file, asking) {
      if (!(file?.bytes instanceof Uint8Array) || typeof file.mediaType !== "string")
        throw new QmError("invalid_arguments", "a file is { bytes: Uint8Array, mediaType }");
      return kept("note", await infospace.writeFile(makerFor(completed(asking)), { replaces: "saved", ...file }));
    },
    async collect(members, how, asking) {
      const caller = completed(asking);
      return kept(
        "collection",
        await infospace.collect(makerFor(caller), membersFor(caller, members), { replaces: "saved", ...how }),
      );
    },
    async add(handle, members, asking) {
      const caller = completed(asking);
      return kept("collection", await infospace.add(makerFor(caller), handle, membersFor(caller, members)));
    },
    async takeOut(handle, notes, asking) {
      const { infospace, caller } = seenBy(asking);
      requireIterable(notes);
      return infospace.takeOut(makerFor(caller), handle, Array.from(notes, noteId));
    },
    async save(handle, { reach, name } = {}, asking) {
      const { infospace, caller } = seenBy(asking);
      const present = await infospace.resource(handle, caller);
      const how = { reach: reach ?? present.reach, name };
      return keptOf(await infospace.save(makerFor(caller), handle, how));
    },
    async remove(handle, asking) {
      const { infospace, caller } = seenBy(asking);
      return infospace.remove(makerFor(caller), handle);
    },
    async expire() {
      const gone = await store.expire(runtime.now().toISOString());
      if (gone.notes + gone.collections > 0) note({ type: "resources.expired", data: gone });
      return gone;
    },
    async usage(asking) {
      const used = await store.usage(asking && whoseOf(completed(asking)));
      return used.map((each) => ({ ...each, limit: parts.quota[each.scope] }));
    },
    async *export(query = {}, asking) {
      yield* exportLines({ store, at: runtime.now().toISOString() }, await selected(query, asking), query);
    },
    async import(chunks, { signal } = {}, asking) {
      const caller = completed(asking);
      const at = runtime.now();
      const maker = makerFor(caller, IMPORT);
      const expiresAt = new Date(at.getTime() + parts.expiresInMs).toISOString();
      const writer = createImportWriter({ store, origin: originOf(maker, at), expiresAt });
      try {
        const imported = await importLines(chunks, writer, signal);
        for await (const [kind, made] of writer.made()) note(writtenEvent(maker, kind, made), caller);
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

function keptOf(resource: NoteFacts | Collection): Kept {
  return kept("count" in resource ? "collection" : "note", resource);
}

function noteId(handle: string): number {
  const reference = parseHandle(handle);
  if (reference?.kind === "note") return reference.id;
  throw new QmError("invalid_arguments", `${quoted(String(handle))} is not the handle of a note`);
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
function asJson(value: unknown): Json {
  try {
    const text = JSON.stringify(value);
    if (text !== undefined) return JSON.parse(text) as Json;
  } catch (thrown) {
    throw new QmError("invalid_arguments", `a note must be JSON: ${messageOf(thrown)}`, { cause: thrown });
  }
  throw new QmError("invalid_arguments", `a note must be JSON, and ${typeof value} is not`);
}
