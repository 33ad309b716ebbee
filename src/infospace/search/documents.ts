import { yieldToEventLoop } from "../../core/async.ts";
import { getOrCreate } from "../../core/json.ts";
import type { Searchable } from "../../search/hits.ts";
import { type LexicalIndex, lexicalIndexSteps } from "../../search/lexical/lexical-index.ts";
import { hashActionText } from "../../search/semantic/action-text.ts";
import { runInSlices } from "../../search/steps.ts";
import type { ResourceKind } from "../note.ts";
import { type NoteDocument, Passage, splitPassages, TextGone } from "./passage.ts";

export interface DocumentSource {
  readonly kind: ResourceKind;
  /** A cheap mark that changes with `marks`. Absent: `marks` is called each time. */
  mark?(): Promise<string>;
  /** All documents by id, each with a text that changes with it. */
  marks(): Promise<ReadonlyMap<number, string>>;
  /** How many documents `marks` left out. Absent: none. */
  left?(): number;
  /** Leaves out hidden documents, which are not counted either. */
  read(ids: readonly number[]): Promise<readonly NoteDocument[]>;
}

export type IndexLimits = Readonly<{ documents: number; characters: number }>;

export interface DocumentSnapshot {
  readonly words: LexicalIndex;
  readonly view: Searchable;
  /** The newest document first. */
  readonly passages: readonly Passage[];
  readonly searched: number;
  /** How many documents, the oldest, are beyond the limits. */
  readonly left: number;
  readonly cut: number;
  readonly characters: number;
}

/** A hidden document has no passages. */
type Entry = Readonly<{ mark: string; passages: readonly Passage[]; hash: string; characters: number; whole: boolean }>;

interface ReadProgress {
  readonly ids: readonly number[];
  readonly marks: ReadonlyMap<number, string>;
  readonly signal: AbortSignal;
  /** How many documents to read next. */
  batchSize: number;
  characters: number;
  /** Passages that were read and not yet indexed. */
  fresh: Passage[];
}

const FIRST_BATCH = 32;
const MAX_BATCH = 512;
const BATCH_CHARACTERS = 500_000;
/** Characters of text in memory before they are indexed. */
const MAX_UNINDEXED = 4_000_000;

/** A keyword index over the documents of a source. Only changed documents are read and indexed again. */
export function createDocumentIndex(source: DocumentSource, limits: IndexLimits, hasVectors: boolean) {
  let entries = new Map<number, Entry>();
  let words: LexicalIndex | undefined;
  let seen: { readonly mark: string | undefined; readonly marks: ReadonlyMap<number, string> } | undefined;
  let present: DocumentSnapshot | undefined;

  function reset(): void {
    entries = new Map();
    words = undefined;
    present = undefined;
    seen = undefined;
  }

  async function refresh(signal: AbortSignal): Promise<DocumentSnapshot> {
    const mark = await source.mark?.();
    if (present !== undefined && mark !== undefined && mark === seen?.mark) return present;
    const marks = await source.marks();
    if (present === undefined || seen === undefined || !isSame(marks, seen.marks))
      present = await update(marks, signal);
    seen = { mark, marks };
    return present;
  }

  async function update(marks: ReadonlyMap<number, string>, signal: AbortSignal): Promise<DocumentSnapshot> {
    try {
      return await readChanges(marks, signal).catch((thrown) => {
        // The index wants to rebuild itself, as it does after most of its documents were removed.
        if (!(thrown instanceof TextGone)) throw thrown;
        reset();
        return readChanges(marks, signal);
      });
    } catch (thrown) {
      reset();
      throw thrown;
    }
  }

  async function readChanges(marks: ReadonlyMap<number, string>, signal: AbortSignal): Promise<DocumentSnapshot> {
    for (const [id, { mark }] of entries) if (marks.get(id) !== mark) entries.delete(id);
    const ids = [...marks.keys()].sort((a, b) => b - a);
    const reading: ReadProgress = { ids, marks, signal, batchSize: FIRST_BATCH, characters: 0, fresh: [] };
    const kept = new Map<number, Entry>();
    const counts = { searched: 0, left: source.left?.() ?? 0, cut: 0, characters: 0 };
    for (const [at, id] of ids.entries()) {
      const isFull = counts.searched >= limits.documents;
      if (!isFull && !entries.has(id)) await readBatch(at, reading);
      const entry = entries.get(id);
      if (isFull || entry === undefined || counts.characters + entry.characters > limits.characters) {
        counts.left += ids.length - at;
        break;
      }
      kept.set(id, entry);
      if (entry.passages.length > 0) counts.searched++;
      if (!entry.whole) counts.cut++;
      counts.characters += entry.characters;
    }
    entries = kept;
    const { words, passages } = await analyse(reading, true);
    const view = { snapshot: { actions: passages }, sees: () => true, actions: () => passages };
    return { words, passages, ...counts, view };
  }

  /** Reads the next missing documents from `at`. */
  async function readBatch(at: number, reading: ReadProgress): Promise<void> {
    const { ids, marks } = reading;
    await yieldToEventLoop();
    reading.signal.throwIfAborted();
    const wanted: number[] = [];
    for (let next = at; next < ids.length && wanted.length < reading.batchSize; next++) {
      const id = ids[next];
      if (id !== undefined && !entries.has(id)) wanted.push(id);
    }
    const before = reading.characters;
    const found = new Map((await source.read(wanted)).map((document) => [document.id, document]));
    for (const id of wanted) {
      const entry = toEntry(source.kind, found.get(id), marks.get(id) ?? "");
      for (const passage of entry.passages) {
        // The vector store needs the hash of the text, and caches it while the text is in memory.
        if (hasVectors) hashActionText(passage);
        reading.fresh.push(passage);
      }
      entries.set(id, entry);
      reading.characters += entry.characters;
    }
    reading.batchSize = nextBatchSize(wanted.length, reading.characters - before);
    if (reading.characters >= MAX_UNINDEXED) await analyse(reading);
  }

  /** Indexes all entries. Forgets only the texts read for that: others may be needed for vectors. */
  async function analyse(reading: ReadProgress, prepare = false) {
    const passages = [...entries.values()].flatMap((entry) => entry.passages);
    words = await runInSlices(lexicalIndexSteps(passages, words, prepare), reading.signal);
    for (const passage of reading.fresh) passage.forget();
    reading.fresh = [];
    reading.characters = 0;
    return { words, passages };
  }

  return {
    /** Brings the index up to date. Must not run twice at a time. */
    refresh,
    /** Loads the texts of passages. Rejects with `TextGone` if a document has changed. */
    async recall(passages: readonly Passage[]): Promise<void> {
      const wanted = new Map<number, Passage[]>();
      for (const passage of passages) getOrCreate(wanted, passage.id, () => []).push(passage);
      const ids = [...wanted.keys()];
      for (let from = 0; from < ids.length; from += FIRST_BATCH) {
        for (const { id, hash, text } of await source.read(ids.slice(from, from + FIRST_BATCH))) {
          if (hash !== entries.get(id)?.hash) throw new TextGone();
          const texts = [...splitPassages(text)];
          for (const passage of wanted.get(id) ?? []) passage.remember(texts[passage.at] ?? "");
        }
      }
      if (!passages.every(({ hasText }) => hasText)) throw new TextGone();
    },
    /** Forgets the mark, with `all` also the documents, because access to them may have changed. */
    renew(all: boolean): void {
      if (all) reset();
      seen = undefined;
    },
  };
}

function toEntry(kind: ResourceKind, document: NoteDocument | undefined, mark: string): Entry {
  if (document === undefined) return { mark, passages: [], hash: "", characters: 0, whole: true };
  const { hash, text, whole } = document;
  const passages = Array.from(splitPassages(text), (part, at) => new Passage(kind, document, at, part));
  return { mark, passages, hash, characters: text.length, whole };
}

function nextBatchSize(read: number, characters: number): number {
  const fitting = Math.floor(BATCH_CHARACTERS / Math.max(1, characters / Math.max(1, read)));
  return Math.max(1, Math.min(fitting, read * 2, MAX_BATCH));
}

function isSame(one: ReadonlyMap<number, string>, other: ReadonlyMap<number, string>): boolean {
  if (one.size !== other.size) return false;
  for (const [id, mark] of one) if (other.get(id) !== mark) return false;
  return true;
}
