import { yieldToEventLoop } from "../../core/async.ts";
import type { Searchable } from "../../search/hits.ts";
import { type LexicalIndex, lexicalIndexSteps } from "../../search/lexical/lexical-index.ts";
import { hashActionText } from "../../search/semantic/action-text.ts";
import { runInSlices } from "../../search/steps.ts";
import type { ResourceKind } from "../note.ts";
import { type NoteDocument, Passage, splitPassages, TextGone } from "./passage.ts";

/** Where documents come from. */
export interface DocumentSource {
  readonly kind: ResourceKind;
  /** Changes whenever `marks` may answer differently. Cheap to ask. Absent: `marks` is asked each time. */
  mark?(): Promise<string>;
  /** Everything there is by id, each with something that changes when it does. */
  marks(): Promise<ReadonlyMap<number, string>>;
  /** How many there are that `marks` left out. Absent: none. */
  left?(): number;
  /** Those that are there. Others are hidden: they leave no trace, and are not counted. */
  read(ids: readonly number[]): Promise<readonly NoteDocument[]>;
}

/** Bounds of one index, so that no caller's notes take all the memory there is. */
export interface IndexLimits {
  readonly documents: number;
  readonly characters: number;
}

/** What there is, as it was when it was last looked. */
export interface DocumentSnapshot {
  readonly words: LexicalIndex;
  readonly view: Searchable;
  /** The newest document's first. */
  readonly passages: readonly Passage[];
  readonly searched: number;
  /** How many were left out, because there are more than the limits allow: the oldest. */
  readonly left: number;
  /** Of how many only the beginning is in it. */
  readonly cut: number;
  readonly characters: number;
}

/** The documents of a source, analysed. What has not changed is neither read nor analysed again. */
export interface DocumentIndex {
  /** As they are now. One call at a time. */
  refresh(signal: AbortSignal): Promise<DocumentSnapshot>;
  /** Has passages remember their text. Rejects with `TextGone` when one has changed: another text must not be taken for it. */
  recall(passages: readonly Passage[]): Promise<void>;
  /** What is there may have changed without a mark; with `all`, also who may find it. */
  renew(all: boolean): void;
}

interface DocumentEntry {
  readonly mark: string;
  /** None: it is hidden. */
  readonly passages: readonly Passage[];
  readonly hash: string;
  readonly characters: number;
  readonly whole: boolean;
}

/** What was read and not yet analysed, and how many to read next. */
interface ReadProgress {
  many: number;
  characters: number;
  fresh: Passage[];
}

const READ_FIRST = 32;
const READ_AT_MOST = 512;
const READ_CHARACTERS = 500_000;
/** So much text is remembered before it is analysed. */
const ANALYSED = 4_000_000;

/** `embeds`: vectors may be made of the passages. */
export function createDocumentIndex(source: DocumentSource, limits: IndexLimits, embeds: boolean): DocumentIndex {
  let entries = new Map<number, DocumentEntry>();
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
        // The index wants to analyse all of it again, as it does when most of what it knew is gone.
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
    const reading: ReadProgress = { many: READ_FIRST, characters: 0, fresh: [] };
    const kept = new Map<number, DocumentEntry>();
    const counts = { searched: 0, left: source.left?.() ?? 0, cut: 0, characters: 0 };
    for (const [at, id] of ids.entries()) {
      const isFull = counts.searched >= limits.documents;
      if (!isFull && !entries.has(id)) await readBatch(at, ids, marks, reading, signal);
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
    const { words, passages } = await analyse(reading, signal, true);
    return { words, passages, ...counts, view: toSearchable(passages) };
  }

  /** Reads on from there, as many as are likely to be little text. */
  async function readBatch(
    at: number,
    ids: readonly number[],
    marks: ReadonlyMap<number, string>,
    reading: ReadProgress,
    signal: AbortSignal,
  ): Promise<void> {
    await yieldToEventLoop();
    signal.throwIfAborted();
    const wanted: number[] = [];
    for (let next = at; next < ids.length && wanted.length < reading.many; next++) {
      const id = ids[next];
      if (id !== undefined && !entries.has(id)) wanted.push(id);
    }
    const before = reading.characters;
    const found = new Map((await source.read(wanted)).map((document) => [document.id, document]));
    for (const id of wanted) {
      const entry = toEntry(source.kind, found.get(id), marks.get(id) ?? "");
      for (const passage of entry.passages) {
        // While the text is there: what stands for it in the store of vectors is remembered.
        if (embeds) hashActionText(passage);
        reading.fresh.push(passage);
      }
      entries.set(id, entry);
      reading.characters += entry.characters;
    }
    reading.many = nextBatchSize(wanted.length, reading.characters - before);
    if (reading.characters >= ANALYSED) await analyse(reading, signal);
  }

  /** All there is now. Only what was read for that is forgotten: of others the text may be wanted for vectors. */
  async function analyse(
    reading: ReadProgress,
    signal: AbortSignal,
    prepare = false,
  ): Promise<{ readonly words: LexicalIndex; readonly passages: readonly Passage[] }> {
    const passages = [...entries.values()].flatMap((entry) => entry.passages);
    words = await runInSlices(lexicalIndexSteps(passages, words, prepare), signal);
    for (const passage of reading.fresh) passage.forget();
    reading.fresh = [];
    reading.characters = 0;
    return { words, passages };
  }

  return {
    refresh,
    async recall(passages) {
      const wanted = new Map<number, Passage[]>();
      for (const passage of passages) {
        const others = wanted.get(passage.id);
        if (others === undefined) wanted.set(passage.id, [passage]);
        else others.push(passage);
      }
      const ids = [...wanted.keys()];
      for (let from = 0; from < ids.length; from += READ_FIRST) {
        for (const { id, hash, text } of await source.read(ids.slice(from, from + READ_FIRST))) {
          if (hash !== entries.get(id)?.hash) throw new TextGone();
          const texts = [...splitPassages(text)];
          for (const passage of wanted.get(id) ?? []) passage.remember(texts[passage.at] ?? "");
        }
      }
      if (!passages.every(({ hasText }) => hasText)) throw new TextGone();
    },
    renew(all) {
      if (all) reset();
      seen = undefined;
    },
  };
}

function toEntry(kind: ResourceKind, document: NoteDocument | undefined, mark: string): DocumentEntry {
  if (document === undefined) return { mark, passages: [], hash: "", characters: 0, whole: true };
  const { hash, text, whole } = document;
  const passages = Array.from(splitPassages(text), (part, at) => new Passage(kind, document, at, part));
  return { mark, passages, hash, characters: text.length, whole };
}

function nextBatchSize(read: number, characters: number): number {
  const fitting = Math.floor(READ_CHARACTERS / Math.max(1, characters / Math.max(1, read)));
  return Math.max(1, Math.min(fitting, read * 2, READ_AT_MOST));
}

function isSame(one: ReadonlyMap<number, string>, other: ReadonlyMap<number, string>): boolean {
  if (one.size !== other.size) return false;
  for (const [id, mark] of one) if (other.get(id) !== mark) return false;
  return true;
}

function toSearchable(actions: readonly Passage[]): Searchable {
  return { snapshot: { actions }, sees: () => true, actions: () => actions };
}
