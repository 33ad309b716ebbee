import type { Caller } from "../core/caller.ts";
import { formatCount } from "../core/display-text.ts";
import { QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import {
  type ArgumentReference,
  addArgumentPath,
  formatAsText,
  type HandleReference,
  handleFromDataError,
  hasHandleReference,
  replaceReferences,
} from "./handle-reference.ts";
import type { Infospace } from "./infospace.ts";
import { type PathResult, type PathStep, readJsonPath } from "./json-path.ts";
import type { Collection } from "./note.ts";
import { parseHandle } from "./note.ts";
import { readNthItem } from "./note-reader.ts";

/** Where in the arguments something was put, and what it was. */
export interface ResolvedReference {
  /** As a path: `items[0].id`. */
  readonly at: string;
  readonly handle: string;
  readonly path?: string;
  readonly version: number;
  /** Of a long note's content. What is short could be found out from it by trying; of a collection the version says which it was. */
  readonly hash?: string;
}

/** Puts what handles lead to in their place. */
export interface HandleResolver {
  /**
   * Every `{"$from": "note__12", "path": "items[0].id"}` in the arguments becomes the value there; with `version` as it was
   * then, with `as` (`json`, `jsonl`, `text`) as a text. What is put in is not looked through again: a note that holds such a
   * thing holds just that. Throws `not_found` and `invalid_arguments` with the place in the arguments, and `too_large`.
   */
  fill(
    caller: Caller,
    args: unknown,
    options?: {
      /**
       * Of the outermost fields, those that are handles themselves: what is written there stands for the handle alone. A list
       * from elsewhere is values there; in a field that is named with `[]`, as in `notes[]`, a list is handles, too. A handle
       * is never taken out of what is kept: what somebody wrote there would choose what is worked on.
       */
      readonly asHandles?: readonly string[] | undefined;
    },
  ): Promise<{ readonly args: unknown; readonly from: readonly ResolvedReference[] }>;
}

export interface HandleResolverOptions {
  readonly infospace: Pick<Infospace, "note" | "collection" | "resource" | "items">;
  /** How many characters of JSON arguments may have once they are filled. */
  readonly fillLimit: number;
}

const MOST_HANDLES = 64;
/** How much is read for what is put in: of long notes a small part may be all that is needed. */
const READ_FOR_FILLED = 4;
/** The hash of what is shorter is not told. */
const HASHED_BYTES = 1_024;

/**
 * Whether there may be a handle in arguments with this JSON, also one that is misspelt or in a text: looking at the text is
 * quicker than looking through them, and nearly none have a dollar sign there.
 */
export function mayContainHandles(text: string): boolean {
  return text.includes("$") && text.includes('"$');
}

export function createHandleResolver({ infospace, fillLimit }: HandleResolverOptions): HandleResolver {
  return {
    async fill(caller, args, { asHandles = [] } = {}) {
      if (!hasHandleReference(args)) return { args, from: [] };
      const places: ArgumentReference[] = [];
      replaceReferences(args, asHandles, (place) => void places.push(place));
      if (places.length > MOST_HANDLES) throw tooManyHandlesError();
      const { values, from } = await resolveValues(places, caller);
      const next = values.values();
      return { args: replaceReferences(args, asHandles, () => next.next().value), from };
    },
  };

  /** One after the other, so that the first that is wrong is what is told. */
  async function resolveValues(places: readonly ArgumentReference[], caller: Caller) {
    const budget = { left: READ_FOR_FILLED * fillLimit };
    const known = new Map<ArgumentReference, LoadedPart>();
    const values: Json[] = [];
    const from: ResolvedReference[] = [];
    let size = 0;
    for (const place of places) {
      const { at, written, isHandle } = place;
      const { handle, path, as } = written;
      if (!known.has(place)) {
        const held = await read(place, caller, budget);
        // All that is needed of it is taken now, so that it is read once and need not be kept.
        for (const each of places) if (each.source === place.source) known.set(each, selectPart(held, each));
      }
      const { found, version, hash } = known.get(place) as LoadedPart;
      known.delete(place);
      if (!found.found) throw missing(place, found.missing);
      const value = as === undefined ? found.value : formatAsText(found.value, as);
      if (isHandle && typeof value === "string") throw handleFromDataError(at);
      size += JSON.stringify(value).length;
      if (size > fillLimit) throw argumentsTooLargeError(fillLimit, handle);
      values.push(value);
      from.push({ at, handle, ...(path === undefined ? {} : { path }), version, ...(hash === "" ? {} : { hash }) });
    }
    return { values, from };
  }

  async function read({ written, at, path }: ArgumentReference, caller: Caller, budget: Budget): Promise<LoadedSource> {
    const { handle, version } = written;
    try {
      if (parseHandle(handle)?.kind !== "collection") return await readNote(written, caller, budget);
      const collection = await infospace.collection(handle, caller, version);
      if (!collection.complete) throw incompleteError(handle);
      const held = { version: collection.version, hash: "" };
      const [first] = path.steps;
      if (first === undefined) return { ...held, content: await readWhole(handle, collection, budget) };
      const item = typeof first === "number" ? await readNthItem(infospace, collection, first) : undefined;
      if (item === undefined) return { ...held, missing: describeMissingItem(collection.count, first) };
      spend(budget, item.bytes, handle);
      return { ...held, content: item.content, isItem: true };
    } catch (thrown) {
      throw addArgumentPath(thrown, at);
    }
  }

  async function readNote({ handle, version }: HandleReference, caller: Caller, budget: Budget): Promise<LoadedSource> {
    // Told before it is read; how long an earlier one was is known only then.
    if (version === undefined) spend(budget, (await infospace.resource(handle, caller)).bytes, handle);
    const note = await infospace.note(handle, caller, version);
    if (version !== undefined) spend(budget, note.bytes, handle);
    return { content: note.content, version: note.version, hash: note.bytes > HASHED_BYTES ? note.hash : "" };
  }

  async function readWhole(handle: string, collection: Collection, budget: Budget): Promise<Json> {
    // Told before anything is read: a collection may be larger than what is free.
    if (collection.bytes > fillLimit) throw argumentsTooLargeError(fillLimit, handle);
    spend(budget, collection.bytes, handle);
    const contents: Json[] = [];
    for await (const { content } of infospace.items(collection)) contents.push(content);
    return contents;
  }

  function spend(budget: Budget, bytes: number, handle: string): void {
    budget.left -= bytes;
    if (budget.left >= 0) return;
    const limit = READ_FOR_FILLED * fillLimit;
    throw new QmError("too_large", `with ${handle} more than ${limit} bytes would be read for the arguments`, {
      hint: "Make notes of the parts that are needed first, with infospace__project or infospace__split, and give those.",
      details: { handle, limit },
    });
  }
}

/** How many bytes may still be read. */
interface Budget {
  left: number;
}

/** What was read for one source. */
type LoadedSource = {
  readonly version: number;
  /** Empty: not told. */
  readonly hash: string;
} & ({ readonly content: Json; readonly isItem?: boolean } | { readonly missing: string });

interface LoadedPart extends Pick<LoadedSource, "version" | "hash"> {
  readonly found: PathResult;
}

function selectPart(held: LoadedSource, { path }: ArgumentReference): LoadedPart {
  const { version, hash } = held;
  if ("missing" in held) return { version, hash, found: { found: false, missing: held.missing } };
  const steps = held.isItem ? path.steps.slice(1) : path.steps;
  return { version, hash, found: readJsonPath(held.content, { steps }) };
}

function describeMissingItem(count: number, step: PathStep): string {
  const items = formatCount(count, "item");
  if (typeof step === "number") return `it has ${items}, so there is no [${step}]`;
  return `it is a collection of ${items}, whose parts have positions: [0]`;
}

function missing({ at, written: { handle, path = "" } }: ArgumentReference, why: string): QmError {
  return new QmError("not_found", `${at || "the arguments"}: ${handle} has no ${quoteName(path)}: ${why}`, {
    details: { at, handle, path },
    hint: `Look at its shape with infospace__load {"target":"${handle}"}, then give a path that is there.`,
  });
}

function incompleteError(handle: string): QmError {
  return new QmError("conflict", `${handle} is not complete: whoever filled it has not come to the end`, {
    hint: "Wait for it, or take what is there with infospace__head.",
  });
}

function tooManyHandlesError(): QmError {
  return new QmError("too_large", `the arguments hold more than ${MOST_HANDLES} handles`, {
    hint: "Make one collection of what they lead to with infospace__create-collection, and give that.",
  });
}

function argumentsTooLargeError(limit: number, handle: string): QmError {
  return new QmError("too_large", `with ${handle} in their place the arguments are longer than ${limit} characters`, {
    hint: "Give a path to the part that is needed, or narrow it first with infospace__filter-structured, infospace__project or infospace__head.",
    details: { handle, limit },
  });
}
