import type { Caller } from "../core/caller.ts";
import { formatCount } from "../core/display-text.ts";
import { QmError } from "../core/errors.ts";
import { type Json, omitUndefined } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import type { ArgumentReference, HandleReference } from "./handle-reference.ts";
import {
  addArgumentPath,
  formatAsText,
  formatPlace,
  handleFromDataError,
  hasHandleReference,
  replaceReferences,
} from "./handle-reference.ts";
import type { Infospace } from "./infospace.ts";
import { type PathResult, type PathStep, readJsonPath } from "./json-path.ts";
import { parseHandle } from "./note.ts";
import { collectContents, readNthItem } from "./note-reader.ts";

/**
 * `at`: the place in the arguments, such as `items[0].id`. Only a long note has a `hash`: short contents could be guessed
 * from theirs.
 */
export type ResolvedReference = Readonly<{ at: string; handle: string; path?: string; version: number; hash?: string }>;

/** Replaces handle references in arguments by the values they stand for. */
export interface HandleResolver {
  /**
   * Replaces every `{"$from": "note__12", "path": "items[0].id"}` by its value. `version` takes an earlier version, `as` (`json`,
   * `jsonl`, `text`) makes a text. Inserted values are not searched for references again. Throws `not_found` and
   * `invalid_arguments` with the place in the arguments, and `too_large`.
   *
   * `asHandles` names top-level arguments that take handles: a reference there stands for the handle itself, and for a list
   * with `[]`, as in `notes[]`. A handle is never taken from stored data, which could choose what is worked on.
   */
  fill(
    caller: Caller,
    args: unknown,
    options?: { readonly asHandles?: readonly string[] | undefined },
  ): Promise<{ readonly args: unknown; readonly from: readonly ResolvedReference[] }>;
}

/** `fillLimit`: maximum characters of JSON of the filled arguments. */
type HandleResolverOptions = Readonly<{ infospace: HandleReader; fillLimit: number }>;
type HandleReader = Pick<Infospace, "note" | "collection" | "resource" | "items">;
const MAX_HANDLES = 64;
/** Bytes that may be read per character that may be filled in: often a small part of a long note is needed. */
const READ_FACTOR = 4;
const MIN_HASHED_BYTES = 1_024;

/** A quick check on the JSON of arguments: whether it may contain a reference, also a misspelled one or one in a text. */
export function mayContainHandles(text: string): boolean {
  return text.includes("$") && text.includes('"$');
}

export function createHandleResolver({ infospace, fillLimit }: HandleResolverOptions): HandleResolver {
  return {
    async fill(caller, args, { asHandles = [] } = {}) {
      if (!hasHandleReference(args)) return { args, from: [] };
      const references: ArgumentReference[] = [];
      replaceReferences(args, asHandles, (reference) => void references.push(reference));
      if (references.length > MAX_HANDLES) {
        const hint = "Make one collection of them, and give that. Use {infospace__create-collection}.";
        throw new QmError("too_large", `the arguments hold more than ${MAX_HANDLES} handles`, { hint });
      }
      const { values, from } = await resolveValues(references, caller);
      const next = values.values();
      return { args: replaceReferences(args, asHandles, () => next.next().value), from };
    },
  };

  /** In order, so that the error is about the first wrong reference. */
  async function resolveValues(references: readonly ArgumentReference[], caller: Caller) {
    const budget = { left: READ_FACTOR * fillLimit };
    const parts = new Map<ArgumentReference, LoadedPart>();
    const values: Json[] = [];
    const from: ResolvedReference[] = [];
    let size = 0;
    for (const each of references) {
      const { at, isHandle, source } = each;
      const { handle, path, as } = each.reference;
      if (!parts.has(each)) {
        const loaded = await read(each, caller, budget);
        // Takes all parts that are needed of a source, so that it is read once and not held in memory.
        for (const other of references) if (other.source === source) parts.set(other, selectPart(loaded, other));
      }
      const { found, version, hash } = parts.get(each) as LoadedPart;
      parts.delete(each);
      if (!found.found) throw missingPartError(each, found.missing);
      const value = as === undefined ? found.value : formatAsText(found.value, as);
      if (isHandle && typeof value === "string") throw handleFromDataError(at);
      size += JSON.stringify(value).length;
      if (size > fillLimit) throw argumentsTooLargeError(fillLimit, handle);
      values.push(value);
      from.push(omitUndefined({ at, handle, path, version, hash }));
    }
    return { values, from };
  }

  async function read({ reference, at, path }: ArgumentReference, caller: Caller, budget: Budget) {
    const { handle } = reference;
    try {
      if (parseHandle(handle)?.kind !== "collection") return await readNote(reference, caller, budget);
      const collection = await infospace.collection(handle, caller, reference.version);
      if (!collection.complete) throw incompleteError(handle);
      const { version, count, bytes } = collection;
      const [first] = path.steps;
      if (first === undefined) {
        // Checked before reading: a collection may be larger than the memory.
        if (bytes > fillLimit) throw argumentsTooLargeError(fillLimit, handle);
        spend(budget, bytes, handle);
        return { version, content: await collectContents(infospace.items(collection)) };
      }
      const item = typeof first === "number" ? await readNthItem(infospace, collection, first) : undefined;
      if (item === undefined) return { version, missing: describeMissingItem(count, first) };
      spend(budget, item.bytes, handle);
      return { version, content: item.content, isItem: true };
    } catch (thrown) {
      throw addArgumentPath(thrown, at);
    }
  }

  async function readNote({ handle, version }: HandleReference, caller: Caller, budget: Budget): Promise<LoadedSource> {
    // Checked before reading. The size of an earlier version is only known afterwards.
    if (version === undefined) spend(budget, (await infospace.resource(handle, caller)).bytes, handle);
    const note = await infospace.note(handle, caller, version);
    if (version !== undefined) spend(budget, note.bytes, handle);
    const hash = note.bytes > MIN_HASHED_BYTES ? note.hash : undefined;
    return { content: note.content, version: note.version, hash };
  }

  function spend(budget: Budget, bytes: number, handle: string): void {
    budget.left -= bytes;
    if (budget.left >= 0) return;
    const limit = READ_FACTOR * fillLimit;
    throw new QmError("too_large", `with ${handle} more than ${limit} bytes would be read for the arguments`, {
      hint: "Make notes of the parts that are needed first, and give those. {infospace__project} selects fields. {infospace__split} makes one note of each part.",
      details: { handle, limit },
    });
  }
}

type Budget = { left: number };

type LoadedSource = { readonly version: number; readonly hash?: string | undefined } & (
  | { readonly content: Json; readonly isItem?: boolean }
  | { readonly missing: string }
);

type LoadedPart = Pick<LoadedSource, "version" | "hash"> & { readonly found: PathResult };

function selectPart(loaded: LoadedSource, { path }: ArgumentReference): LoadedPart {
  const { version, hash } = loaded;
  if ("missing" in loaded) return { version, hash, found: { found: false, missing: loaded.missing } };
  const steps = loaded.isItem ? path.steps.slice(1) : path.steps;
  return { version, hash, found: readJsonPath(loaded.content, { steps }) };
}

function describeMissingItem(count: number, step: PathStep): string {
  const items = formatCount(count, "item");
  if (typeof step === "number") return `it has ${items}, so there is no [${step}]`;
  return `it is a collection of ${items}, whose parts have positions: [0]`;
}

function missingPartError({ at, reference: { handle, path = "" } }: ArgumentReference, why: string): QmError {
  return new QmError("not_found", `${formatPlace(at)}: ${handle} has no ${quoteName(path)}: ${why}`, {
    details: { at, handle, path },
    hint: `Give a path that exists. Look at its shape with {infospace__load} {"target":"${handle}"}.`,
  });
}

function incompleteError(handle: string): QmError {
  return new QmError("conflict", `${handle} is not complete: it is still being filled, or filling it was interrupted`, {
    hint: "Wait for it. Take the notes so far with {infospace__head}.",
  });
}

function argumentsTooLargeError(limit: number, handle: string): QmError {
  return new QmError("too_large", `with the value of ${handle} the arguments are longer than ${limit} characters`, {
    hint: "Give a path to the part that is needed, or narrow it first. {infospace__filter-structured} selects items. {infospace__project} selects fields. {infospace__head} takes the first items.",
    details: { handle, limit },
  });
}
