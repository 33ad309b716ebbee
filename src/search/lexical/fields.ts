import type { Action } from "../../core/action.ts";
import { isRecord } from "../../core/json.ts";
import { namespaceOf, SEPARATOR } from "../../core/names.ts";

/** The parts of an action that words are looked for in. */
export const fields = ["name", "namespace", "labels", "description", "parameters", "details"] as const;

export type Field = (typeof fields)[number];

const DESCRIPTION_LIMIT = 4_000;
const DETAILS_LIMIT = 6_000;
const NODES = 300;
const DEPTH = 8;

type Visit = (field: Field, text: string) => void;

/** Hands over the text of each field, piece by piece. What is beyond the bounds of a sane action is not looked at. */
export function eachText(action: Action, visit: Visit): void {
  const { name, aliases, tags, description, inputSchema, examples } = action;
  visit("name", ownName(action));
  visit("namespace", namespaceOf(name));
  for (const label of [...aliases, ...tags]) visit("labels", label);
  visit("description", description.slice(0, DESCRIPTION_LIMIT));
  const details = bounded(visit);
  eachParameter(inputSchema, details);
  for (const { args, description: purpose } of examples) {
    for (const key of Object.keys(args)) details("details", key);
    if (purpose !== undefined) details("details", purpose);
  }
}

/** The name without where it comes from: `create_issue` of `mcp__github__create_issue`. */
export function ownName({ name }: Action): string {
  return name.slice(name.lastIndexOf(SEPARATOR) + SEPARATOR.length);
}

function bounded(visit: Visit): Visit {
  let left = DETAILS_LIMIT;
  return (field, text) => {
    if (left <= 0) return;
    visit(field, text.slice(0, left));
    left -= text.length;
  };
}

/** The names, descriptions and allowed values of what a schema asks for, however deep. */
function eachParameter(schema: unknown, visit: Visit): void {
  let nodes = 0;
  const walk = (part: unknown, depth: number): void => {
    if (depth > DEPTH || ++nodes > NODES) return;
    if (Array.isArray(part)) for (const each of part) walk(each, depth + 1);
    if (!isRecord(part)) return;
    for (const text of [part.title, part.description]) if (typeof text === "string") visit("details", text);
    if (Array.isArray(part.enum)) {
      for (const value of part.enum) if (typeof value === "string") visit("details", value);
    }
    for (const keyword of ["properties", "$defs", "definitions"]) {
      const named = part[keyword];
      if (!isRecord(named)) continue;
      for (const [name, value] of Object.entries(named)) {
        if (keyword === "properties") visit("parameters", name);
        walk(value, depth + 1);
      }
    }
    for (const keyword of ["items", "anyOf", "oneOf", "allOf", "additionalProperties"]) walk(part[keyword], depth + 1);
  };
  walk(schema, 0);
}
