import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import { described, isList } from "./content.ts";
import { jsonLinesOf } from "./json-lines.ts";
import { pathText, type Step } from "./path.ts";
import { textForm } from "./text-form.ts";

/** The part of a note that makes it long. */
export interface LargePart {
  readonly path: string;
  readonly steps: readonly Step[];
  /** What it is, of a text what it says: `array of 900 objects {id}`, `text, JSON array of 12 strings`. */
  readonly what: string;
  /** Whether it can be taken apart: otherwise it is one thing. */
  readonly isMany: boolean;
}

const DEPTH = 4;
const NODES = 2_000;
const PATH_LIMIT = 60;
/** What has a smaller share of all of it is one among others. */
const SHARE = 0.25;

interface Candidate {
  readonly steps: readonly Step[];
  readonly value: string | readonly Json[];
  readonly size: number;
}

/** The longest list or text in the fields of an object, a few levels deep. */
export function largePart(content: Json): LargePart | undefined {
  if (!isRecord(content)) return undefined;
  let best: Candidate | undefined;
  let [total, nodes] = [0, 0];
  const open: { readonly value: Json; readonly steps: readonly Step[] }[] = [{ value: content, steps: [] }];
  for (let next = open.pop(); next !== undefined && nodes < NODES; next = open.pop(), nodes++) {
    const { value, steps } = next;
    const parts = steps.length < DEPTH ? partsOf(value) : [];
    for (const [step, part] of parts) open.push({ value: part, steps: [...steps, step] });
    if (parts.length > 0) continue;
    const size = JSON.stringify(value).length;
    total += size;
    if ((typeof value === "string" || isList(value)) && size > (best?.size ?? 0)) best = { steps, value, size };
  }
  if (best === undefined || best.size < total * SHARE) return undefined;
  const path = pathText(best.steps);
  return path.length > PATH_LIMIT ? undefined : { path, steps: best.steps, ...formOf(best.value) };
}

/** Of a record its fields; a list of one record is as good as that. */
function partsOf(value: Json): readonly (readonly [Step, Json])[] {
  if (!isList(value)) return typeof value === "object" && value !== null ? Object.entries(value) : [];
  const [only = null] = value;
  return value.length === 1 && isRecord(only) ? [[0, only]] : [];
}

/** A list that a text is the JSON of, or the JSON lines of. */
export type ListInText = { readonly form: "lines" } | { readonly form: "json"; readonly value: readonly Json[] };

/** Undefined: the text says something else. */
export function listInText(text: string): ListInText | undefined {
  const read = textForm(text);
  if (read.form === "lines") return read;
  return read.form === "json" && isList(read.value) ? { form: "json", value: read.value } : undefined;
}

/** A list, or a text that is the JSON lines of one. */
export type FoundList =
  | { readonly by: "items"; readonly list: readonly Json[] }
  | { readonly by: "json_lines"; readonly text: string };

interface Longest {
  readonly steps: readonly Step[];
  readonly size: number;
  readonly found: FoundList;
}

/** Of a list of one record, what has so large a share in it is meant. */
const INNER_SHARE = 0.5;

/** The longest list of an object, or text that says one, a few levels deep, and where it is. */
export function listIn(content: JsonObject): Pick<Longest, "steps" | "found"> | undefined {
  let nodes = 0;
  function longest(value: Json, steps: readonly Step[]): Longest | undefined {
    if (++nodes > NODES) return undefined;
    if (typeof value === "string") {
      const said = listInText(value);
      if (said === undefined) return undefined;
      const found: FoundList =
        said.form === "lines" ? { by: "json_lines", text: value } : { by: "items", list: said.value };
      return { steps, size: value.length, found };
    }
    let best: Longest | undefined;
    for (const [step, part] of steps.length < DEPTH ? partsOf(value) : []) {
      const inner = longest(part, [...steps, step]);
      if (inner !== undefined && inner.size > (best?.size ?? 0)) best = inner;
    }
    if (!isList(value)) return best;
    const size = JSON.stringify(value).length;
    return best !== undefined && best.size >= size * INNER_SHARE
      ? best
      : { steps, size, found: { by: "items", list: value } };
  }
  return longest(content, []);
}

function formOf(value: string | readonly Json[]): Pick<LargePart, "what" | "isMany"> {
  const what = described(value, true);
  if (typeof value !== "string") return { what, isMany: value.length > 1 };
  const read = textForm(value);
  switch (read.form) {
    case "lines": {
      const [first = null] = jsonLinesOf(value).values;
      return { what: `text, JSON lines: ${described(first, false)}`, isMany: true };
    }
    case "json":
      return {
        what: `text, JSON ${described(read.value, true)}`,
        isMany: !isRecord(read.value) || listIn(read.value) !== undefined,
      };
    case "text":
      return { what, isMany: value.trimEnd().includes("\n") };
  }
}
