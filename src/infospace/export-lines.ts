import { z } from "zod";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import { parseHandle } from "./handle.ts";
import { type Origin, reaches } from "./note.ts";

/** The version of the form that exports have. */
export const EXPORT_VERSION = 1;

/** What the first line of an export says of the others. */
export const headerShape = z.object({
  quartermaster: z.literal("notes"),
  version: z.literal(EXPORT_VERSION),
});

const note = z.string().refine((text) => parseHandle(text)?.kind === "note", "it is not the handle of a note");
const collection = z
  .string()
  .refine((text) => parseHandle(text)?.kind === "collection", "it is not the handle of a collection");
const object = z.custom<JsonObject>(isRecord, "it is not an object");

/** What a note says: `content`, or of a file the bytes. */
const said = {
  format: z.enum(["text", "json", "file"]).optional(),
  hash: z.string().optional(),
  content: z.unknown().optional(),
  media_type: z.string().optional(),
  base64: z.string().optional(),
};

const resource = {
  name: z.string().optional(),
  properties: object.default({}),
  origin: object.optional(),
  reach: z.enum(reaches).default("session"),
  changed_at: z.string().optional(),
  expires_at: z.iso.datetime({ offset: true }).optional(),
};

const noteShape = z.object({
  kind: z.literal("note"),
  id: note.optional(),
  part_of: collection.optional(),
  ...resource,
  ...said,
});
const versionShape = z.object({ kind: z.literal("version"), of: note, version: z.int().min(1), ...said });
const collectionShape = z.object({
  kind: z.literal("collection"),
  id: collection,
  complete: z.boolean().default(true),
  ...resource,
});
const stateShape = z.object({ kind: z.literal("state"), of: collection, version: z.int().min(2) });
const itemsShape = z.object({ kind: z.literal("items"), of: collection, items: z.array(note) });
const endShape = z.object({ kind: z.literal("end"), notes: z.int().min(0), collections: z.int().min(0) });

/**
 * Every line after the first. A collection's line comes before what it holds, which follows in order: notes with `part_of`
 * that were made for it, and `items` with the handles of notes of earlier lines. Where a collection comes with what it held
 * before, that comes first, and `state` begins what it held from then on. The earlier versions of a note come before it. The
 * last line counts them, so that a file that was cut off is not taken for a whole one.
 */
export const lineShape = z.discriminatedUnion("kind", [
  noteShape,
  versionShape,
  collectionShape,
  stateShape,
  itemsShape,
  endShape,
]);

export type Line = z.output<typeof lineShape>;
export type NoteLine = z.output<typeof noteShape>;
export type VersionLine = z.output<typeof versionShape>;
export type CollectionLine = z.output<typeof collectionShape>;

/** A line as it is written. */
export function lineOf(value: JsonObject): string {
  return `${JSON.stringify(value)}\n`;
}

export function exportedOrigin({ callId, ...origin }: Origin): JsonObject {
  const { action, ...rest } = origin;
  return { action, call_id: callId, ...rest };
}

/** The content of a line: of a file its bytes and what they are. */
export function exportedContent(format: string, content: Json): JsonObject {
  if (format !== "file") return { content };
  const { media_type = "application/octet-stream", base64 = "" } = content as JsonObject;
  return { media_type, base64 };
}
