import { getOwn, type Json, type JsonObject } from "../core/json.ts";
import type { CollectionLine, NoteLine, VersionLine } from "./export-lines.ts";
import type { StoredContent } from "./infospace-store.ts";
import { sourcesOf } from "./note.ts";
import { fileContent, jsonContent } from "./stored-content.ts";

/** Where an imported resource says what it was. */
const IMPORTED = "imported";

/** What it was is remembered, and not what it was when it was imported the last time. */
export function labelOf({ id, name, properties, origin, changed_at }: NoteLine | CollectionLine) {
  const was: JsonObject = {
    ...(id === undefined ? {} : { id }),
    ...(changed_at === undefined ? {} : { changed_at }),
    ...(origin === undefined ? {} : { origin }),
  };
  const isNew = getOwn(properties, IMPORTED) === undefined && Object.keys(was).length > 0;
  return {
    ...(name === undefined ? {} : { name }),
    properties: isNew ? { ...properties, [IMPORTED]: was } : properties,
  };
}

/** The actions that a line says it came from. */
export function sourcesIn({ origin }: NoteLine | CollectionLine): readonly string[] {
  const action = getOwn(origin ?? {}, "action");
  const sources = getOwn(origin ?? {}, "sources");
  return sourcesOf({
    action: typeof action === "string" ? action : "",
    sources: Array.isArray(sources) ? sources.filter((each) => typeof each === "string") : [],
  });
}

/** What a line says, as it is kept. Throws where it is not what its hash says. */
export function saidBy({ format, hash, content, media_type, base64 }: NoteLine | VersionLine): StoredContent {
  const said =
    base64 === undefined
      ? jsonContent(requiredContent(content))
      : fileContent(bytesOf(base64), media_type ?? "application/octet-stream");
  if (format !== undefined && said.format !== format) throw new Error(`its format is ${said.format}, not ${format}`);
  if (hash !== undefined && said.hash !== hash)
    throw new Error("its content is not what its hash says: it was changed");
  return said;
}

function requiredContent(content: unknown): Json {
  if (content === undefined) throw new Error("it has neither content nor base64");
  return content as Json;
}

function bytesOf(base64: string): Uint8Array {
  const bytes = Buffer.from(base64, "base64");
  if (bytes.toString("base64") !== base64) throw new Error("base64: it is not that");
  return bytes;
}
