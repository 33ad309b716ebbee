import { QmError } from "../../core/errors.ts";
import { clip, getOwn, isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import { isList } from "../content.ts";
import { handleOf } from "../handle.ts";
import type { Input } from "../operations/derived.ts";
import { type Path, parsePath, valueAt } from "../path.ts";

/** The arguments for one item, or why there are none. */
export type Made = { readonly args: JsonObject } | { readonly missing: string };

const ITEM = "$item";
const HANDLE = "$handle";
/** As other languages write a place into a text. */
const WRITTEN_IN = /\$(?:item|handle)\b|\{\{\s*\$?(?:item|handle)\b|\$\{\s*(?:item|handle)\b/;

/**
 * Arguments with places in them for an item: `{"$item": "owner.id"}` for a part of it, `{"$handle": true}` for its handle.
 * Without any, an item that is an object is the arguments. Throws `invalid_arguments` for a path that is none, and for a text
 * with such a place written into it, which nobody would fill.
 */
export function templateOf(written: JsonObject | undefined): (input: Input) => Made {
  const places = written === undefined ? undefined : placed(written);
  return (input) => {
    try {
      if (places !== undefined) return { args: filled(places, input) as JsonObject };
      if (!isRecord(input.content)) return { missing: "it is not an object, so args must say where it goes" };
      return { args: input.content as JsonObject };
    } catch (thrown) {
      if (thrown instanceof QmError) return { missing: thrown.message };
      throw thrown;
    }
  };
}

/** A template that was read once: every place is known, and paths are parsed. */
type Places =
  | { readonly is: "value"; readonly value: Json }
  | { readonly is: "item"; readonly path: Path }
  | { readonly is: "handle" }
  | { readonly is: "list"; readonly parts: readonly Places[] }
  | { readonly is: "object"; readonly parts: readonly (readonly [string, Places])[] };

function placed(written: Json): Places {
  if (isList(written)) return { is: "list", parts: written.map(placed) };
  if (typeof written === "string" && WRITTEN_IN.test(written)) throw writtenIn(written);
  if (typeof written !== "object" || written === null) return { is: "value", value: written };
  const entries = Object.entries(written);
  if (entries.length === 1) {
    const item = getOwn(written, ITEM);
    if (typeof item === "string") return { is: "item", path: parsePath(item) };
    if (getOwn(written, HANDLE) === true) return { is: "handle" };
  }
  return { is: "object", parts: entries.map(([name, part]) => [name, placed(part)]) };
}

function filled(places: Places, input: Input): Json {
  switch (places.is) {
    case "value":
      return places.value;
    case "handle":
      if (input.id === undefined) throw missing("it is a value that is no note, so it has no handle");
      return handleOf("note", input.id);
    case "item": {
      const found = valueAt(input.content, places.path);
      if (!found.found) throw missing(found.missing);
      return found.value;
    }
    case "list":
      return places.parts.map((part) => filled(part, input));
    case "object":
      return Object.fromEntries(places.parts.map(([name, part]) => [name, filled(part, input)]));
  }
}

/** An item that has not what the arguments need. */
function missing(what: string): QmError {
  return new QmError("invalid_arguments", what);
}

function writtenIn(text: string): QmError {
  const path = /(?:\$|\{\{\s*\$?|\$\{\s*)item\.?([\w.[\]]*)/.exec(text)?.[1]?.replace(/\.$/, "") ?? "";
  return new QmError("invalid_arguments", `nothing is filled in inside a text: ${quoted(clip(text, 80))}`, {
    hint: `Give the place as the whole value: ${JSON.stringify({ [ITEM]: path })} for a part of the item, {"$handle": true} for its handle.`,
  });
}
