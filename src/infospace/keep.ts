import type { Caller } from "../core/caller.ts";
import { type Content, contentText, mediaSize } from "../core/content.ts";
import { messageOf, QmError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import { counted } from "../core/plain-text.ts";
import type { Streamed } from "../core/streamed.ts";
import { fitted } from "./content.ts";
import { handleOf, type ResourceKind } from "./handle.ts";
import type { Infospace } from "./infospace.ts";
import { readJsonLines } from "./json-lines.ts";
import type { Maker } from "./maker.ts";
import { type KeptMedia, keepMedia } from "./media.ts";
import { type Next, nextStep } from "./next-step.ts";
import type { NoteFacts } from "./note.ts";
import { jsonOf, type Put, put, putAll } from "./put.ts";
import { isOutOfRoom } from "./quota.ts";
import { within } from "./shown.ts";

/** A result where a model can use it without reading it. */
export interface Kept {
  readonly handle: ActionName;
  readonly kind: ResourceKind;
  readonly bytes: number;
  /** Of a collection. */
  readonly count?: number;
  /** For the model, in its place: the handle, its shape, what can be done next. */
  readonly shown: JsonObject;
}

/** A result as a model may see it. The keeper is given nothing else, so that what is hidden from a model is not kept for it. */
export interface Keepable {
  readonly data: unknown;
  readonly content?: Content | undefined;
  /** Of the JSON of the data and of the media, in characters. */
  readonly size: number;
}

/** Keeps what is too long to be shown. */
export interface Keeper {
  /** Undefined: it is not longer than `valueLimit`. */
  keep(result: Keepable, maker: Maker, valueLimit: number): Promise<Kept | undefined>;
  /** A collection, however little comes. When the stream breaks, the error says where what came before is. */
  keepStream(streamed: Streamed, maker: Maker, signal?: AbortSignal): Promise<Kept>;
}

export interface KeeperParts {
  readonly infospace: Pick<Infospace, "write" | "writeFile" | "collect" | "remove">;
  /** How many characters of JSON `shown` has at most. */
  readonly previewLimit: number;
  /** Whether a caller may know of an action. */
  sees(name: string, caller: Caller): boolean;
}

const NEXT_LIMIT = 420;
const SHOWN_FILES = 4;

export function createKeeper({ infospace, previewLimit, sees }: KeeperParts): Keeper {
  function told(next: Next, { caller }: Maker, shape: (limit: number) => JsonObject): JsonObject {
    const text = nextStep(next, (name) => sees(name, caller), Math.min(NEXT_LIMIT, Math.floor(previewLimit / 2)));
    const last = text === "" ? {} : { next: text };
    return within({ ...shape(previewLimit - JSON.stringify(last).length), ...last }, previewLimit);
  }

  function keptPut(made: Put, maker: Maker, beside: JsonObject = {}): Kept {
    const { kind, resource, next } = made;
    const room = JSON.stringify(beside).length;
    return {
      handle: handleOf(kind, resource.id),
      kind,
      bytes: resource.bytes,
      ...("count" in resource ? { count: resource.count } : {}),
      shown: told(next, maker, (limit) => ({ ...made.shown(limit - room), ...beside })),
    };
  }

  /** Several files are a collection as well, so that one handle leads to all of them. */
  async function keptFiles({ notes, files, unreadable }: KeptMedia, maker: Maker): Promise<KeptFiles | undefined> {
    const [only] = notes;
    if (only === undefined) return undefined;
    const broken = unreadable === 0 ? {} : { unreadable };
    if (notes.length === 1) {
      const next: Next = { handle: handleOf("note", only.id), kind: "note", format: "file", part: "base64" };
      return { kind: "note", id: only.id, bytes: only.bytes, next, shown: { files, ...broken } };
    }
    const all = await infospace.collect(
      maker,
      notes.map(({ id }) => ({ id })),
    );
    const handle = handleOf("collection", all.id);
    const more = files.length > SHOWN_FILES ? { more_files: files.length - SHOWN_FILES } : {};
    return {
      kind: "collection",
      id: all.id,
      bytes: all.bytes,
      count: all.count,
      next: { handle, kind: "collection", part: "[0].base64" },
      shown: { all_files: handle, files: files.slice(0, SHOWN_FILES), ...more, ...broken },
    };
  }

  function keptAsFiles({ kind, id, bytes, count, next, shown }: KeptFiles, data: unknown, maker: Maker): Kept {
    const handle = handleOf(kind, id);
    const facts = { handle, kind, bytes, ...(count === undefined ? {} : { count }), ...shown };
    const room = JSON.stringify(facts).length + `"result":,`.length;
    return {
      handle,
      kind,
      bytes,
      ...(count === undefined ? {} : { count }),
      shown: told(next, maker, (limit) => ({ ...facts, result: fitted(data as Json, limit - room).value })),
    };
  }

  return {
    async keep({ data, content, size }, maker, valueLimit) {
      if (size <= valueLimit) return undefined;
      const media = content === undefined ? 0 : mediaSize(content.blocks);
      const hasMedia = content !== undefined && media > valueLimit;
      const written: NoteFacts[] = [];
      try {
        const kept = hasMedia ? await keepMedia(infospace, maker, content, written) : undefined;
        const files = kept === undefined ? undefined : await keptFiles(kept, maker);
        const rest = files === undefined || kept === undefined ? data : kept.inPlace(data);
        const length = files === undefined && typeof rest !== "string" ? size - media : lengthOf(rest);
        if (length > valueLimit)
          return keptPut(await put(rest, { infospace, maker, previewLimit }), maker, files?.shown);
        if (files === undefined) return undefined;
        return keptAsFiles(files, rest ?? contentText(content?.blocks ?? [], valueLimit), maker);
      } catch (thrown) {
        // All of a result is kept, or nothing.
        for (const { id } of written) await infospace.remove(maker, handleOf("note", id)).catch(() => {});
        throw thrown;
      }
    },
    async keepStream(streamed, maker, signal) {
      const source = streamed.take();
      const { values, counts } =
        source.form === "lines" ? readJsonLines(source.chunks) : { values: jsonOf(source.values), counts: undefined };
      let came = { handle: "", count: 0 };
      const onProgress = (handle: string, count: number) => {
        came = { handle, count };
      };
      try {
        return keptPut(await putAll(values, { infospace, maker, previewLimit, signal, onProgress }, counts), maker);
      } catch (thrown) {
        // What there is no room for was taken back, so that there is nothing to point to.
        throw came.handle === "" || isOutOfRoom(thrown) ? thrown : brokenOff(thrown, came, signal?.aborted === true);
      }
    },
  };
}

interface KeptFiles {
  readonly kind: ResourceKind;
  readonly id: number;
  readonly bytes: number;
  readonly count?: number;
  readonly next: Next;
  readonly shown: JsonObject;
}

/** As much as a model would be shown of it. */
function lengthOf(data: unknown): number {
  return typeof data === "string" ? data.length : (JSON.stringify(data) ?? "null").length;
}

function brokenOff(
  thrown: unknown,
  { handle, count }: { readonly handle: string; readonly count: number },
  isCancelled: boolean,
): QmError {
  const known = thrown instanceof QmError ? thrown : undefined;
  const code = known?.code ?? (isCancelled ? "cancelled" : "action_failed");
  return new QmError(code, `the result broke off after ${counted(count, "item")}: ${messageOf(thrown)}`, {
    cause: thrown,
    // Of what never began nothing is kept.
    ...(count === 0 ? {} : { hint: `What came before is in ${handle}, which says that it is not complete.` }),
    details: { ...known?.details, ...(count === 0 ? {} : { handle }), count, complete: false },
  });
}
