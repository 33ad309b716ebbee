import type { Caller } from "../core/caller.ts";
import { formatCount } from "../core/display-text.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { Streamed } from "../core/handler-result.ts";
import { type Content, type ContentBlock, formatContent, measureMedia } from "../core/handler-result.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import type { Infospace } from "./infospace.ts";
import { fitJson } from "./json-preview.ts";
import { readJsonLines } from "./json-text.ts";
import type { NoteFacts } from "./note.ts";
import { formatHandle, type ResourceKind } from "./note.ts";
import { fitEntries } from "./preview.ts";
import type { NoteAuthor } from "./provenance.ts";
import { isOutOfRoom } from "./quota.ts";
import {
  formatNextStep,
  type NextStepHint,
  type StoredValue,
  storeCollection,
  storeValue,
  toJsonStream,
} from "./store-value.ts";

/** Pictures, sound and files of a result, as notes. */
interface StoredMedia {
  readonly notes: readonly NoteFacts[];
  /** For a model: `handle`, `media_type`, `size`. */
  readonly files: readonly JsonObject[];
  /** Blocks whose base64 is none: there is nothing to keep of them. */
  readonly unreadable: number;
  /** The same value with handles in the place of what they hold. */
  inPlace(value: unknown): unknown;
}

const MEDIA_TYPE = /^[\w.+-]{1,60}\/[\w.+-]{1,60}$/;
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;
/** Shorter texts are not looked up. */
const SHORT = 16;

/** Every block that has bytes in it becomes a note. */
async function storeMedia(
  infospace: Pick<Infospace, "writeFile">,
  maker: NoteAuthor,
  { blocks }: Content,
  /** Gets each note as it is written. */
  notes: NoteFacts[] = [],
): Promise<StoredMedia> {
  const files: JsonObject[] = [];
  const handles = new Map<string, string>();
  let unreadable = 0;
  for (const block of blocks) {
    const { encoded, mediaType } = readMedia(block);
    if (encoded === undefined || handles.has(encoded)) continue;
    const bytes = decodeMedia(encoded);
    if (bytes === undefined) {
      unreadable++;
      continue;
    }
    const note = await infospace.writeFile(maker, { bytes, mediaType });
    const handle = formatHandle("note", note.id);
    handles.set(encoded, handle);
    notes.push(note);
    files.push({ handle, media_type: mediaType, size: bytes.byteLength });
  }
  return { notes, files, unreadable, inPlace: (value) => replaceMedia(value, handles) };
}

function readMedia(block: ContentBlock): { readonly encoded: string | undefined; readonly mediaType: string } {
  const inner: JsonObject = isRecord(block.resource) ? block.resource : {};
  const encoded = [block.data, inner.blob].find((text): text is string => typeof text === "string" && text !== "");
  const type = [block.mimeType, inner.mimeType].find((text) => typeof text === "string" && MEDIA_TYPE.test(text));
  return { encoded, mediaType: (type as string | undefined) ?? "application/octet-stream" };
}

/** Node takes whatever it finds; what is not base64 through and through would become other bytes. */
function decodeMedia(encoded: string): Uint8Array | undefined {
  const text = /\s/.test(encoded) ? encoded.replace(/\s+/g, "") : encoded;
  return BASE64.test(text) ? Buffer.from(text, "base64") : undefined;
}

function replaceMedia(value: unknown, handles: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") return value.length < SHORT ? value : (handles.get(value) ?? value);
  if (Array.isArray(value)) return value.map((part) => replaceMedia(part, handles));
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]): [string, Json] => [key, replaceMedia(part, handles) as Json]),
  );
}

/** A result where a model can use it without reading it. */
export interface StoredResult {
  readonly handle: ActionName;
  readonly kind: ResourceKind;
  readonly bytes: number;
  /** Of a collection. */
  readonly count?: number;
  /** For the model, in its place: the handle, its shape, what can be done next. */
  readonly shown: JsonObject;
}

/** A result as a model may see it. The keeper is given nothing else, so that what is hidden from a model is not kept for it. */
export interface VisibleResult {
  readonly data: unknown;
  readonly content?: Content | undefined;
  /** Of the JSON of the data and of the media, in characters. */
  readonly size: number;
}

/** Keeps what is too long to be shown. */
export interface ResultStore {
  /** Undefined: it is not longer than `valueLimit`. */
  store(result: VisibleResult, maker: NoteAuthor, valueLimit: number): Promise<StoredResult | undefined>;
  /** A collection, however little comes. When the stream breaks, the error says where what came before is. */
  storeStream(streamed: Streamed, maker: NoteAuthor, signal?: AbortSignal): Promise<StoredResult>;
}

interface ResultStoreOptions {
  readonly infospace: Pick<Infospace, "write" | "writeFile" | "collect" | "remove">;
  /** How many characters of JSON `shown` has at most. */
  readonly previewLimit: number;
  /** Whether a caller may know of an action. */
  sees(name: string, caller: Caller): boolean;
}

const NEXT_LIMIT = 420;
const SHOWN_FILES = 4;

export function createResultStore({ infospace, previewLimit, sees }: ResultStoreOptions): ResultStore {
  function formatPreview(next: NextStepHint, { caller }: NoteAuthor, shape: (limit: number) => JsonObject): JsonObject {
    const text = formatNextStep(next, (name) => sees(name, caller), Math.min(NEXT_LIMIT, Math.floor(previewLimit / 2)));
    const last = text === "" ? {} : { next: text };
    return fitEntries({ ...shape(previewLimit - JSON.stringify(last).length), ...last }, previewLimit);
  }

  function toStoredResult(made: StoredValue, maker: NoteAuthor, beside: JsonObject = {}): StoredResult {
    const { kind, resource, next } = made;
    const room = JSON.stringify(beside).length;
    return {
      handle: formatHandle(kind, resource.id),
      kind,
      bytes: resource.bytes,
      ...("count" in resource ? { count: resource.count } : {}),
      shown: formatPreview(next, maker, (limit) => ({ ...made.preview(limit - room), ...beside })),
    };
  }

  /** Several files are a collection as well, so that one handle leads to all of them. */
  async function storeFiles(
    { notes, files, unreadable }: StoredMedia,
    maker: NoteAuthor,
  ): Promise<StoredFiles | undefined> {
    const [only] = notes;
    if (only === undefined) return undefined;
    const broken = unreadable === 0 ? {} : { unreadable };
    if (notes.length === 1) {
      const next: NextStepHint = {
        handle: formatHandle("note", only.id),
        kind: "note",
        format: "file",
        part: "base64",
      };
      return { kind: "note", id: only.id, bytes: only.bytes, next, shown: { files, ...broken } };
    }
    const all = await infospace.collect(
      maker,
      notes.map(({ id }) => ({ id })),
    );
    const handle = formatHandle("collection", all.id);
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

  function toFilesResult(
    { kind, id, bytes, count, next, shown }: StoredFiles,
    data: unknown,
    maker: NoteAuthor,
  ): StoredResult {
    const handle = formatHandle(kind, id);
    const facts = { handle, kind, bytes, ...(count === undefined ? {} : { count }), ...shown };
    const room = JSON.stringify(facts).length + `"result":,`.length;
    return {
      handle,
      kind,
      bytes,
      ...(count === undefined ? {} : { count }),
      shown: formatPreview(next, maker, (limit) => ({ ...facts, result: fitJson(data as Json, limit - room).value })),
    };
  }

  return {
    async store({ data, content, size }, maker, valueLimit) {
      if (size <= valueLimit) return undefined;
      const media = content === undefined ? 0 : measureMedia(content.blocks);
      const hasMedia = content !== undefined && media > valueLimit;
      const written: NoteFacts[] = [];
      try {
        const kept = hasMedia ? await storeMedia(infospace, maker, content, written) : undefined;
        const files = kept === undefined ? undefined : await storeFiles(kept, maker);
        const rest = files === undefined || kept === undefined ? data : kept.inPlace(data);
        const length = files === undefined && typeof rest !== "string" ? size - media : measureLength(rest);
        if (length > valueLimit)
          return toStoredResult(await storeValue(rest, { infospace, maker, previewLimit }), maker, files?.shown);
        if (files === undefined) return undefined;
        return toFilesResult(files, rest ?? formatContent(content?.blocks ?? [], valueLimit), maker);
      } catch (thrown) {
        // All of a result is kept, or nothing.
        for (const { id } of written) await infospace.remove(maker, formatHandle("note", id)).catch(() => {});
        throw thrown;
      }
    },
    async storeStream(streamed, maker, signal) {
      const source = streamed.take();
      const { values, counts } =
        source.form === "lines"
          ? readJsonLines(source.chunks)
          : { values: toJsonStream(source.values), counts: undefined };
      let came = { handle: "", count: 0 };
      const onProgress = (handle: string, count: number) => {
        came = { handle, count };
      };
      try {
        return toStoredResult(
          await storeCollection(values, { infospace, maker, previewLimit, signal, onProgress }, counts),
          maker,
        );
      } catch (thrown) {
        // What there is no room for was taken back, so that there is nothing to point to.
        throw came.handle === "" || isOutOfRoom(thrown)
          ? thrown
          : interruptedError(thrown, came, signal?.aborted === true);
      }
    },
  };
}

interface StoredFiles {
  readonly kind: ResourceKind;
  readonly id: number;
  readonly bytes: number;
  readonly count?: number;
  readonly next: NextStepHint;
  readonly shown: JsonObject;
}

/** As much as a model would be shown of it. */
function measureLength(data: unknown): number {
  return typeof data === "string" ? data.length : (JSON.stringify(data) ?? "null").length;
}

function interruptedError(
  thrown: unknown,
  { handle, count }: { readonly handle: string; readonly count: number },
  isCancelled: boolean,
): QmError {
  const known = thrown instanceof QmError ? thrown : undefined;
  const code = known?.code ?? (isCancelled ? "cancelled" : "action_failed");
  return new QmError(code, `the result broke off after ${formatCount(count, "item")}: ${getErrorMessage(thrown)}`, {
    cause: thrown,
    // Of what never began nothing is kept.
    ...(count === 0 ? {} : { hint: `What came before is in ${handle}, which says that it is not complete.` }),
    details: { ...known?.details, ...(count === 0 ? {} : { handle }), count, complete: false },
  });
}
