import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { isRecord, type Json } from "../core/json.ts";
import { quoted } from "../core/names.ts";
import { parseHandle } from "./handle.ts";
import type { Infospace } from "./infospace.ts";
import { parsePath, valueAt } from "./path.ts";
import { holdsWritten, textOf, type Written, writtenHandle } from "./written-handle.ts";

/** Where in the arguments something was put, and what it was. */
export interface FilledFrom {
  /** As a path: `items[0].id`. */
  readonly at: string;
  readonly handle: string;
  readonly path?: string;
  readonly version: number;
  /** Of the note's content; of a collection there is none, and its version says which it was. */
  readonly hash: string;
}

/** Puts what handles lead to in their place. */
export interface Handles {
  /**
   * Every `{"$from": "note__12", "path": "items[0].id"}` in the arguments becomes the value there; with `version` as it was
   * then, with `as` (`json`, `jsonl`, `text`) as a text. What is put in is not looked through again: a note that holds such a
   * thing holds just that. Throws `not_found` and `invalid_arguments` with the place in the arguments, and `too_large`.
   */
  fill(
    caller: Caller,
    args: unknown,
    options?: {
      /** Of the outermost fields, those that are handles themselves: what is written there stands for the handle alone. */
      readonly asHandles?: readonly string[] | undefined;
    },
  ): Promise<{ readonly args: unknown; readonly from: readonly FilledFrom[] }>;
}

export interface HandlesParts {
  readonly infospace: Pick<Infospace, "note" | "collection" | "items">;
  /** How many characters of JSON arguments may have once they are filled. */
  readonly fillLimit: number;
}

const MOST_HANDLES = 64;

/**
 * Whether there may be a handle in arguments with this JSON, also one that is misspelt or in a text: looking at the text is
 * quicker than looking through them, and nearly none have a dollar sign there.
 */
export function mayHoldHandles(text: string): boolean {
  return text.includes("$") && text.includes('"$');
}

export function createHandles({ infospace, fillLimit }: HandlesParts): Handles {
  return {
    async fill(caller, args, { asHandles = [] } = {}) {
      if (!holdsWritten(args)) return { args, from: [] };
      const from: FilledFrom[] = [];
      const known = new Map<string, Promise<Held>>();
      let size = 0;

      async function filled(value: unknown, at: string, isOutermost = false): Promise<unknown> {
        const written = writtenHandle(value, at);
        if (written !== undefined) return lookedUp(written, at);
        if (Array.isArray(value)) return inTurn(value, (part, index) => filled(part, `${at}[${index}]`));
        if (!isRecord(value)) return value;
        const entries = await inTurn(Object.entries(value), async ([key, part]) => {
          const place = at === "" ? step(key) : `${at}${step(key, ".")}`;
          const handle = isOutermost && asHandles.includes(key) ? bareHandle(writtenHandle(part, place)) : undefined;
          return [key, handle ?? (await filled(part, place))] as const;
        });
        return Object.fromEntries(entries);
      }

      async function lookedUp(written: Written, at: string): Promise<Json> {
        const { handle, path, as } = written;
        if (from.length === MOST_HANDLES) throw tooMany();
        const key = `${handle} ${written.version ?? ""}`;
        const reading = known.get(key) ?? read(written, caller, at);
        known.set(key, reading);
        const held = await reading;
        const found =
          path === undefined ? { found: true as const, value: held.content } : valueAt(held.content, parsePath(path));
        if (!found.found) {
          throw new QmError(
            "not_found",
            `${at || "the arguments"}: ${handle} has no ${quoted(path ?? "")}: ${found.missing}`,
            {
              details: { at, handle, path: path ?? "" },
              hint: `Look at its shape with infospace__load {"target":"${handle}"}, then give a path that is there.`,
            },
          );
        }
        const value = as === undefined ? found.value : textOf(found.value, as);
        size += JSON.stringify(value).length;
        if (size > fillLimit) throw tooLarge(fillLimit, handle);
        from.push({ at, handle, ...(path === undefined ? {} : { path }), version: held.version, hash: held.hash });
        return value;
      }

      return { args: await filled(args, "", true), from };
    },
  };

  async function read({ handle, version }: Written, caller: Caller, at: string): Promise<Held> {
    try {
      if (parseHandle(handle)?.kind !== "collection") return await infospace.note(handle, caller, version);
      const collection = await infospace.collection(handle, caller, version);
      return { content: await whole(handle, collection), version: collection.version, hash: "" };
    } catch (thrown) {
      if (!(thrown instanceof QmError)) throw thrown;
      const { code, hint, details } = thrown;
      throw new QmError(code, `${at || "the arguments"}: ${thrown.message}`, {
        cause: thrown,
        ...(hint === undefined ? {} : { hint }),
        details: { ...details, at },
      });
    }
  }

  async function whole(handle: string, collection: Awaited<ReturnType<Infospace["collection"]>>): Promise<Json> {
    if (!collection.complete) {
      throw new QmError("conflict", `${handle} is not complete: whoever filled it has not come to the end`, {
        hint: "Wait for it, or take what is there with infospace__head.",
      });
    }
    // Told before anything is read: a collection may be larger than what is free.
    if (collection.bytes > fillLimit) throw tooLarge(fillLimit, handle);
    const contents: Json[] = [];
    for await (const { content } of infospace.items(collection)) contents.push(content);
    return contents;
  }
}

interface Held {
  readonly content: Json;
  readonly version: number;
  readonly hash: string;
}

/** One after the other, so that the first that is wrong is what is told. */
async function inTurn<T, U>(list: readonly T[], work: (each: T, index: number) => Promise<U>): Promise<U[]> {
  const done: U[] = [];
  for (const [index, each] of list.entries()) done.push(await work(each, index));
  return done;
}

/** The handle, where nothing but that is written. */
function bareHandle(written: Written | undefined): string | undefined {
  return written === undefined || Object.keys(written).length > 1 ? undefined : written.handle;
}

function step(key: string, before = ""): string {
  return /^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(key) ? `${before}${key}` : `[${quoted(key)}]`;
}

function tooMany(): QmError {
  return new QmError("too_large", `the arguments hold more than ${MOST_HANDLES} handles`, {
    hint: "Make one collection of what they lead to with infospace__create-collection, and give that.",
  });
}

function tooLarge(limit: number, handle: string): QmError {
  return new QmError("too_large", `with ${handle} in their place the arguments are longer than ${limit} characters`, {
    hint: "Give a path to the part that is needed, or narrow it first with infospace__filter-structured, infospace__project or infospace__head.",
    details: { handle, limit },
  });
}
