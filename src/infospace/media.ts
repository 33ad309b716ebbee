import type { Content, ContentBlock } from "../core/content.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import { handleOf } from "./handle.ts";
import type { Infospace } from "./infospace.ts";
import type { Maker } from "./maker.ts";
import type { NoteFacts } from "./note.ts";

/** Pictures, sound and files of a result, as notes. */
export interface KeptMedia {
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
export async function keepMedia(
  infospace: Pick<Infospace, "writeFile">,
  maker: Maker,
  { blocks }: Content,
  /** Gets each note as it is written. */
  notes: NoteFacts[] = [],
): Promise<KeptMedia> {
  const files: JsonObject[] = [];
  const handles = new Map<string, string>();
  let unreadable = 0;
  for (const block of blocks) {
    const { encoded, mediaType } = mediaOf(block);
    if (encoded === undefined || handles.has(encoded)) continue;
    const bytes = decoded(encoded);
    if (bytes === undefined) {
      unreadable++;
      continue;
    }
    const note = await infospace.writeFile(maker, { bytes, mediaType });
    const handle = handleOf("note", note.id);
    handles.set(encoded, handle);
    notes.push(note);
    files.push({ handle, media_type: mediaType, size: bytes.byteLength });
  }
  return { notes, files, unreadable, inPlace: (value) => replaced(value, handles) };
}

function mediaOf(block: ContentBlock): { readonly encoded: string | undefined; readonly mediaType: string } {
  const inner: JsonObject = isRecord(block.resource) ? block.resource : {};
  const encoded = [block.data, inner.blob].find((text): text is string => typeof text === "string" && text !== "");
  const type = [block.mimeType, inner.mimeType].find((text) => typeof text === "string" && MEDIA_TYPE.test(text));
  return { encoded, mediaType: (type as string | undefined) ?? "application/octet-stream" };
}

/** Node takes whatever it finds; what is not base64 through and through would become other bytes. */
function decoded(encoded: string): Uint8Array | undefined {
  const text = /\s/.test(encoded) ? encoded.replace(/\s+/g, "") : encoded;
  return BASE64.test(text) ? Buffer.from(text, "base64") : undefined;
}

function replaced(value: unknown, handles: ReadonlyMap<string, string>): unknown {
  if (typeof value === "string") return value.length < SHORT ? value : (handles.get(value) ?? value);
  if (Array.isArray(value)) return value.map((part) => replaced(part, handles));
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, part]): [string, Json] => [key, replaced(part, handles) as Json]),
  );
}
