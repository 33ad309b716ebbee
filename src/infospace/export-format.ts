import { z } from "zod";
import { getOwn, isRecord, type Json, type JsonObject, omitUndefined } from "../core/json.ts";
import { type StoredContent, toFileContent, toJsonContent } from "./infospace-store.ts";
import { DEFAULT_MEDIA_TYPE, listSources, noteVisibilities, parseHandle } from "./note.ts";

export const EXPORT_VERSION = 1;
export const exportHeaderShape = z.object({ quartermaster: z.literal("notes"), version: z.literal(EXPORT_VERSION) });
const noteHandle = z.string().refine((text) => parseHandle(text)?.kind === "note", "it is not the handle of a note");
const collectionHandle = z
  .string()
  .refine((text) => parseHandle(text)?.kind === "collection", "it is not the handle of a collection");
const objectShape = z.custom<JsonObject>(isRecord, "it is not an object");

/** Either `content`, or the bytes of a file. */
const contentFields = {
  format: z.enum(["text", "json", "file"]).optional(),
  hash: z.string().optional(),
  content: z.unknown().optional(),
  media_type: z.string().optional(),
  base64: z.string().optional(),
};

const resourceFields = {
  name: z.string().optional(),
  properties: objectShape.default({}),
  origin: objectShape.optional(),
  reach: z.enum(noteVisibilities).default("session"),
  changed_at: z.string().optional(),
  expires_at: z.iso.datetime({ offset: true }).optional(),
};

/**
 * Every line after the first. The earlier versions of a note come before it. The line of a collection is followed by its
 * items in order: notes with `part_of` that were made for it, and `items` with handles of earlier lines. With history, its
 * first version comes first and each `state` begins the next one. The `end` line has counts that reveal a truncated file.
 */
export const exportLineShape = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("note"),
    id: noteHandle.optional(),
    part_of: collectionHandle.optional(),
    ...resourceFields,
    ...contentFields,
  }),
  z.object({ kind: z.literal("version"), of: noteHandle, version: z.int().min(1), ...contentFields }),
  z.object({
    kind: z.literal("collection"),
    id: collectionHandle,
    complete: z.boolean().default(true),
    ...resourceFields,
  }),
  z.object({ kind: z.literal("state"), of: collectionHandle, version: z.int().min(2) }),
  z.object({ kind: z.literal("items"), of: collectionHandle, items: z.array(noteHandle) }),
  z.object({ kind: z.literal("end"), notes: z.int().min(0), collections: z.int().min(0) }),
]);

export type ExportLine = z.output<typeof exportLineShape>;
export type NoteLine = Extract<ExportLine, { readonly kind: "note" }>;
export type VersionLine = Extract<ExportLine, { readonly kind: "version" }>;
export type CollectionLine = Extract<ExportLine, { readonly kind: "collection" }>;

/** Keeps the original id, time and origin in the property `imported`, unless an earlier import has set it. */
export function toImportedLabel({ id, name, properties, origin, changed_at }: NoteLine | CollectionLine) {
  const imported: JsonObject = omitUndefined({ id, changed_at, origin });
  const isNew = getOwn(properties, "imported") === undefined && Object.keys(imported).length > 0;
  return omitUndefined({ name, properties: isNew ? { ...properties, imported } : properties });
}

export function readLineSources({ origin }: NoteLine | CollectionLine): readonly string[] {
  const action = getOwn(origin ?? {}, "action");
  const sources = getOwn(origin ?? {}, "sources");
  return listSources({
    action: typeof action === "string" ? action : "",
    sources: Array.isArray(sources) ? sources.filter((each) => typeof each === "string") : [],
  });
}

/** Throws if the content does not match the format or the hash. */
export function readLineContent({ format, hash, content, media_type, base64 }: NoteLine | VersionLine): StoredContent {
  if (base64 === undefined && content === undefined) throw new Error("it has neither content nor base64");
  const stored =
    base64 === undefined
      ? toJsonContent(content as Json)
      : toFileContent(decodeBase64(base64), media_type ?? DEFAULT_MEDIA_TYPE);
  if (format !== undefined && stored.format !== format)
    throw new Error(`its format is ${stored.format}, not ${format}`);
  if (hash !== undefined && stored.hash !== hash)
    throw new Error("its content does not match its hash: it was changed");
  return stored;
}

function decodeBase64(base64: string): Uint8Array {
  const bytes = Buffer.from(base64, "base64");
  if (bytes.toString("base64") !== base64) throw new Error("base64: it is not valid");
  return bytes;
}
