import { isRecord, type Json } from "../core/json.ts";
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
  /** How a collection is made of it; `json` where it is a text that must be read as JSON first. Absent: it is one thing. */
  readonly by?: "items" | "json_lines" | "line" | "json";
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

function formOf(value: string | readonly Json[]): Pick<LargePart, "what" | "by"> {
  const what = described(value, true);
  if (typeof value !== "string") return value.length > 1 ? { what, by: "items" } : { what };
  const read = textForm(value);
  switch (read.form) {
    case "lines": {
      const [first = null] = jsonLinesOf(value).values;
      return { what: `text, JSON lines: ${described(first, false)}`, by: "json_lines" };
    }
    case "json":
      return { what: `text, JSON ${described(read.value, true)}`, by: isList(read.value) ? "items" : "json" };
    case "text":
      return value.trimEnd().includes("\n") ? { what, by: "line" } : { what };
  }
}
