import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import { formatJsonPath, type PathStep } from "./json-path.ts";
import { describeJson, isList } from "./json-preview.ts";
import { detectTextForm, parseJsonLines } from "./json-text.ts";

/** `what`: such as `array of 900 objects {id}`, `text, JSON array of 12 strings`; `isMany`: whether it can be split. */
export type LargePart = Readonly<{ path: string; steps: readonly PathStep[]; what: string; isMany: boolean }>;

const DEPTH = 4;
const NODES = 2_000;
const PATH_LIMIT = 60;
/** The share of the whole that a part needs to count as large. */
const MIN_SHARE = 0.25;

/** The longest list or text in the fields of an object, a few levels deep. */
export function findLargePart(content: Json): LargePart | undefined {
  if (!isRecord(content)) return undefined;
  let best: { readonly steps: readonly PathStep[]; value: string | readonly Json[]; size: number } | undefined;
  let [total, nodes] = [0, 0];
  const open: { readonly value: Json; readonly steps: readonly PathStep[] }[] = [{ value: content, steps: [] }];
  for (let next = open.pop(); next !== undefined && nodes < NODES; next = open.pop(), nodes++) {
    const { value, steps } = next;
    const parts = steps.length < DEPTH ? listParts(value) : [];
    for (const [step, part] of parts) open.push({ value: part, steps: [...steps, step] });
    if (parts.length > 0) continue;
    const size = JSON.stringify(value).length;
    total += size;
    if ((typeof value === "string" || isList(value)) && size > (best?.size ?? 0)) best = { steps, value, size };
  }
  if (best === undefined || best.size < total * MIN_SHARE) return undefined;
  const path = formatJsonPath(best.steps);
  return path.length > PATH_LIMIT ? undefined : { path, steps: best.steps, ...describePart(best.value) };
}

/** The fields of a record, or the only record of a list. */
function listParts(value: Json): readonly (readonly [PathStep, Json])[] {
  if (!isList(value)) return typeof value === "object" && value !== null ? Object.entries(value) : [];
  const [only = null] = value;
  return value.length === 1 && isRecord(only) ? [[0, only]] : [];
}

type ListText = { readonly form: "lines" } | { readonly form: "json"; readonly value: readonly Json[] };

export function parseListText(text: string): ListText | undefined {
  const detected = detectTextForm(text);
  if (detected.form === "lines") return detected;
  return detected.form === "json" && isList(detected.value) ? { form: "json", value: detected.value } : undefined;
}

type NestedList = Readonly<{ by: "items"; list: readonly Json[] } | { by: "json_lines"; text: string }>;
type LongestList = Readonly<{ steps: readonly PathStep[]; size: number; found: NestedList }>;

/** An inner list replaces the outer one if it makes up this share. */
const INNER_SHARE = 0.5;

/** The longest list of an object, or text with a list, a few levels deep. */
export function findLongestList(content: JsonObject): Pick<LongestList, "steps" | "found"> | undefined {
  let nodes = 0;
  function findLongest(value: Json, steps: readonly PathStep[]): LongestList | undefined {
    if (++nodes > NODES) return undefined;
    if (typeof value === "string") {
      const list = parseListText(value);
      if (list === undefined) return undefined;
      const found: NestedList =
        list.form === "lines" ? { by: "json_lines", text: value } : { by: "items", list: list.value };
      return { steps, size: value.length, found };
    }
    let best: LongestList | undefined;
    for (const [step, part] of steps.length < DEPTH ? listParts(value) : []) {
      const inner = findLongest(part, [...steps, step]);
      if (inner !== undefined && inner.size > (best?.size ?? 0)) best = inner;
    }
    if (!isList(value)) return best;
    const size = JSON.stringify(value).length;
    if (best !== undefined && best.size >= size * INNER_SHARE) return best;
    return { steps, size, found: { by: "items", list: value } };
  }
  return findLongest(content, []);
}

function describePart(value: string | readonly Json[]): Pick<LargePart, "what" | "isMany"> {
  const what = describeJson(value, true);
  if (typeof value !== "string") return { what, isMany: value.length > 1 };
  const read = detectTextForm(value);
  if (read.form === "text") return { what, isMany: value.trimEnd().includes("\n") };
  if (read.form === "lines") {
    const [first = null] = parseJsonLines(value).values;
    return { what: `text, JSON lines: ${describeJson(first, false)}`, isMany: true };
  }
  const isMany = !isRecord(read.value) || findLongestList(read.value) !== undefined;
  return { what: `text, JSON ${describeJson(read.value, true)}`, isMany };
}
