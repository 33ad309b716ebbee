import type { Caller } from "../core/caller.ts";
import { formatCount } from "../core/display-text.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { Content, ContentBlock, Streamed } from "../core/handler-result.ts";
import { formatContent, measureMedia } from "../core/handler-result.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import type { Infospace } from "./infospace.ts";
import { fitJson } from "./json-preview.ts";
import { readJsonLines } from "./json-text.ts";
import type { NoteFacts, Resource, ResourceKind } from "./note.ts";
import { DEFAULT_MEDIA_TYPE, formatHandle, getResourceKind } from "./note.ts";
import { fitEntries, toReference } from "./preview.ts";
import type { NoteAuthor } from "./provenance.ts";
import { isOutOfRoom } from "./quota.ts";
import { formatNextStep, type StoredValue, storeCollection, storeValue, toJsonStream } from "./store-value.ts";

/** A result that a model gets as a handle instead of its data. */
export interface StoredResult {
  readonly handle: ActionName;
  readonly resource_id: ActionName;
  readonly kind: ResourceKind;
  readonly bytes: number;
  readonly count?: number;
  /** The handle, a preview and a next step, for the model. */
  readonly shown: JsonObject;
}

/**
 * A result as a model may see it. The store gets nothing else, so that hidden data is not stored for a model. `size`:
 * characters of the JSON and of the media.
 */
export type VisibleResult = Readonly<{ data: unknown; content?: Content | undefined; size: number }>;

/** Stores results that are too long to show. */
export interface ResultStore {
  /** Undefined if the result is not longer than `valueLimit`. */
  store(result: VisibleResult, maker: NoteAuthor, valueLimit: number): Promise<StoredResult | undefined>;
  /** Always stores a collection. If the stream fails, the error names the collection with the items so far. */
  storeStream(streamed: Streamed, maker: NoteAuthor, signal?: AbortSignal): Promise<StoredResult>;
}

type NoteWriter = Pick<Infospace, "write" | "writeFile" | "collect" | "remove">;

/** `previewLimit`: maximum characters of JSON in `shown`; `sees`: whether a caller may know of an action. */
type ResultStoreOptions = { infospace: NoteWriter; previewLimit: number; sees(name: string, caller: Caller): boolean };

const NEXT_LIMIT = 420;
const LISTED_FILES = 4;

export function createResultStore({ infospace, previewLimit, sees }: ResultStoreOptions): ResultStore {
  function toStoredResult({ resource, preview, part, large }: StoredValue, { caller }: NoteAuthor): StoredResult {
    const kind = getResourceKind(resource);
    const handle = formatHandle(kind, resource.id);
    const limit = Math.min(NEXT_LIMIT, Math.floor(previewLimit / 2));
    const hint = { handle, kind, format: "format" in resource ? resource.format : undefined, part, large };
    const text = formatNextStep(hint, (name) => sees(name, caller), limit);
    const next = text === "" ? {} : { next: text };
    const shown = { ...preview(previewLimit - JSON.stringify(next).length), ...next };
    const facts = { ...toReference(kind, resource.id), kind, bytes: resource.bytes, ...getCount(resource) };
    return { ...facts, shown: fitEntries(shown, previewLimit) };
  }

  /** Several files also get a collection, so that one handle leads to all of them. */
  async function storeFiles({ notes, files, unreadable }: StoredMedia, maker: NoteAuthor) {
    const [only] = notes;
    if (only === undefined) return undefined;
    const broken = unreadable === 0 ? {} : { unreadable };
    if (notes.length === 1) return { resource: only, part: "base64", facts: { files, ...broken } };
    const ids = notes.map(({ id }) => ({ id }));
    const all = await infospace.collect(maker, ids);
    const more = files.length > LISTED_FILES ? { more_files: files.length - LISTED_FILES } : {};
    const listed = { all_files: formatHandle("collection", all.id), files: files.slice(0, LISTED_FILES) };
    return { resource: all, part: "[0].base64", facts: { ...listed, ...more, ...broken } };
  }

  return {
    async store({ data, content, size }, maker, valueLimit) {
      if (size <= valueLimit) return undefined;
      const mediaSize = content === undefined ? 0 : measureMedia(content.blocks);
      const written: NoteFacts[] = [];
      try {
        const hasMedia = content !== undefined && mediaSize > valueLimit;
        const media = hasMedia ? await storeMedia(infospace, maker, content, written) : undefined;
        const files = media && (await storeFiles(media, maker));
        const rest = files === undefined || media === undefined ? data : media.replaceIn(data);
        const length = files === undefined && typeof rest !== "string" ? size - mediaSize : measureLength(rest);
        if (length > valueLimit) {
          const stored = await storeValue(rest, { infospace, maker, previewLimit });
          const facts = files?.facts ?? {};
          const room = JSON.stringify(facts).length;
          const preview = (limit: number) => ({ ...stored.preview(limit - room), ...facts });
          return toStoredResult({ ...stored, preview }, maker);
        }
        if (files === undefined) return undefined;
        return toStoredResult(previewFiles(files, rest ?? formatContent(content?.blocks ?? [], valueLimit)), maker);
      } catch (thrown) {
        // A result is stored completely or not at all.
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
      let progress = { handle: "", count: 0 };
      const onProgress = (handle: string, count: number) => {
        progress = { handle, count };
      };
      try {
        const options = { infospace, maker, previewLimit, signal, onProgress };
        return toStoredResult(await storeCollection(values, options, counts), maker);
      } catch (thrown) {
        // Without room the collection was removed again, so there is no handle to name.
        if (progress.handle === "" || isOutOfRoom(thrown)) throw thrown;
        throw interruptedError(thrown, progress.handle, progress.count, signal?.aborted === true);
      }
    },
  };
}

type StoredFiles = Readonly<{ resource: Resource; part: string; facts: JsonObject }>;

function previewFiles({ resource, part, facts: files }: StoredFiles, data: unknown): StoredValue {
  const kind = getResourceKind(resource);
  const facts = { ...toReference(kind, resource.id), kind, bytes: resource.bytes, ...getCount(resource), ...files };
  const room = JSON.stringify(facts).length + `"result":,`.length;
  const preview = (limit: number) => ({ ...facts, result: fitJson(data as Json, limit - room).value });
  return { resource, part, preview };
}

function getCount(resource: Resource): { readonly count?: number } {
  return "count" in resource ? { count: resource.count } : {};
}

function measureLength(data: unknown): number {
  return typeof data === "string" ? data.length : (JSON.stringify(data) ?? "null").length;
}

function interruptedError(thrown: unknown, handle: string, count: number, isCancelled: boolean): QmError {
  const known = thrown instanceof QmError ? thrown : undefined;
  const code = known?.code ?? (isCancelled ? "cancelled" : "action_failed");
  return new QmError(code, `the result broke off after ${formatCount(count, "item")}: ${getErrorMessage(thrown)}`, {
    cause: thrown,
    // An empty collection is removed.
    ...(count === 0 ? {} : { hint: `The items before that are in ${handle}, which is marked as not complete.` }),
    details: { ...known?.details, ...(count === 0 ? {} : { handle }), count, complete: false },
  });
}

type StoredMedia = Awaited<ReturnType<typeof storeMedia>>;
const MEDIA_TYPE = /^[\w.+-]{1,60}\/[\w.+-]{1,60}$/;
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;
const MIN_BASE64 = 16;

/**
 * Stores every block with bytes as a note. `notes` gets each one as it is written, for the case of an error. `unreadable`
 * counts blocks with invalid base64.
 */
async function storeMedia(infospace: NoteWriter, maker: NoteAuthor, { blocks }: Content, notes: NoteFacts[]) {
  /** For a model. */
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
  return { notes, files, unreadable, replaceIn: (value: unknown) => replaceMedia(value, handles) };
}

function readMedia(block: ContentBlock): { readonly encoded: string | undefined; readonly mediaType: string } {
  const inner: JsonObject = isRecord(block.resource) ? block.resource : {};
  const encoded = [block.data, inner.blob].find((text): text is string => typeof text === "string" && text !== "");
  const type = [block.mimeType, inner.mimeType].find((text) => typeof text === "string" && MEDIA_TYPE.test(text));
  return { encoded, mediaType: (type as string | undefined) ?? DEFAULT_MEDIA_TYPE };
}

/** Node skips characters that are not base64, which would give other bytes. */
function decodeMedia(encoded: string): Uint8Array | undefined {
  const text = /\s/.test(encoded) ? encoded.replace(/\s+/g, "") : encoded;
  return BASE64.test(text) ? Buffer.from(text, "base64") : undefined;
}

function replaceMedia(value: unknown, handles: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") return value.length < MIN_BASE64 ? value : (handles.get(value) ?? value);
  if (Array.isArray(value)) return value.map((part) => replaceMedia(part, handles));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, replaceMedia(part, handles)]));
}
