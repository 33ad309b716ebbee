import type { JsonSchema } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { clip, getOwn, isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { type JsonPath, parseJsonPath, readJsonPath } from "../json-path.ts";
import { isList } from "../json-preview.ts";
import { formatHandle } from "../note.ts";
import type { PrimitiveItem } from "./operation.ts";

type TemplateResult = { readonly args: JsonObject } | { readonly missing: string };
const ITEM = "$item";
const HANDLE = "$handle";
/** Placeholders inside a text, as other template languages have them. */
const EMBEDDED = /\$(?:item|handle)\b|\{\{\s*\$?(?:item|handle)\b|\$\{\s*(?:item|handle)\b/;

/**
 * Arguments with placeholders: `{"$item": "owner.id"}` for a part of the item, `{"$handle": true}` for its handle. Without a
 * template, an object item is the arguments, and a text the one that `schema` has for it. Throws `invalid_arguments` for a
 * malformed path and for a placeholder inside a text, which would stay unfilled.
 */
export function compileTemplate(
  template: JsonObject | undefined,
  schema?: JsonSchema,
): (input: PrimitiveItem) => TemplateResult {
  const root = template === undefined ? undefined : parseTemplate(template);
  const textArgument = findTextArgument(schema);
  return (input) => {
    try {
      if (root !== undefined) return { args: fillTemplate(root, input) as JsonObject };
      const { content } = input;
      if (typeof content === "string" && textArgument !== undefined) return { args: { [textArgument]: content } };
      if (!isRecord(content)) return { missing: "it is not an object, so args must say where it goes" };
      return { args: content as JsonObject };
    } catch (thrown) {
      if (thrown instanceof QmError) return { missing: thrown.message };
      throw thrown;
    }
  };
}

/** The only required argument, or the one called `input`. Without a schema `input`, so that the call reports the name. */
function findTextArgument(schema: JsonSchema | undefined): string | undefined {
  if (schema === undefined) return "input";
  const { required = [], properties = {} } = schema;
  const [only, second] = Array.isArray(required) ? required : [];
  if (typeof only === "string" && second === undefined) return only;
  return isRecord(properties) && Object.hasOwn(properties, "input") ? "input" : undefined;
}

type TemplateNode =
  | { readonly is: "value"; readonly value: Json }
  | { readonly is: "item"; readonly path: JsonPath }
  | { readonly is: "handle" }
  | { readonly is: "list"; readonly parts: readonly TemplateNode[] }
  | { readonly is: "object"; readonly parts: readonly (readonly [string, TemplateNode])[] };

function parseTemplate(template: Json): TemplateNode {
  if (isList(template)) return { is: "list", parts: template.map(parseTemplate) };
  if (typeof template === "string" && EMBEDDED.test(template)) throw embeddedPlaceholderError(template);
  if (typeof template !== "object" || template === null) return { is: "value", value: template };
  const entries = Object.entries(template);
  if (entries.length === 1) {
    const item = getOwn(template, ITEM);
    if (typeof item === "string") return { is: "item", path: parseJsonPath(item) };
    if (getOwn(template, HANDLE) === true) return { is: "handle" };
  }
  return { is: "object", parts: entries.map(([name, part]) => [name, parseTemplate(part)]) };
}

function fillTemplate(node: TemplateNode, input: PrimitiveItem): Json {
  switch (node.is) {
    case "value":
      return node.value;
    case "handle":
      if (input.id === undefined)
        throw new QmError("invalid_arguments", "it is a plain value and not a note, so it has no handle");
      return formatHandle("note", input.id);
    case "item": {
      const found = readJsonPath(input.content, node.path);
      if (!found.found) throw new QmError("invalid_arguments", found.missing);
      return found.value;
    }
    case "list":
      return node.parts.map((part) => fillTemplate(part, input));
    case "object":
      return Object.fromEntries(node.parts.map(([name, part]) => [name, fillTemplate(part, input)]));
  }
}

function embeddedPlaceholderError(text: string): QmError {
  const path = /(?:\$|\{\{\s*\$?|\$\{\s*)item\.?([\w.[\]]*)/.exec(text)?.[1]?.replace(/\.$/, "") ?? "";
  const hint = `Give the place as the whole value: ${JSON.stringify({ [ITEM]: path })} for a part of the item, {"$handle": true} for its handle.`;
  return new QmError("invalid_arguments", `nothing is filled in inside a text: ${quoteName(clip(text, 80))}`, { hint });
}
