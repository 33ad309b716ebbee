import { toVisibleLine } from "../../core/display-text.ts";
import { canonicalJson, clip, getOwn, isRecord, type Json } from "../../core/json.ts";
import type { OfferedTool } from "./offer.ts";
import { PINNED_FIELDS } from "./offer.ts";

/** A stretch of a text that is in both, or in one only. */
interface DiffSpan {
  readonly kind: "same" | "removed" | "added";
  readonly text: string;
}

// The table of a comparison has this many cells at most; beyond it the middle is shown as replaced.
const CELLS = 1_000_000;

/** What became of a text, word by word. Put together without what was added it is `before`, without what was removed `after`. */
export function diffWords(before: string, after: string): readonly DiffSpan[] {
  const a = splitWordsAndGaps(before);
  const b = splitWordsAndGaps(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const middle = compareWords(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return mergeSpans([
    { kind: "same", text: a.slice(0, start).join("") },
    ...middle,
    { kind: "same", text: a.slice(a.length - end).join("") },
  ]);
}

/** Words, and what is between them. */
function splitWordsAndGaps(text: string): readonly string[] {
  return text.match(/[\p{L}\p{N}\p{M}_]+|\s+|[^\p{L}\p{N}\p{M}_\s]/gu) ?? [];
}

function compareWords(a: readonly string[], b: readonly string[]): readonly DiffSpan[] {
  if (a.length * b.length > CELLS) {
    return [
      { kind: "removed", text: a.join("") },
      { kind: "added", text: b.join("") },
    ];
  }
  // lengths[i][j]: how many words the rests of both have in common, in order.
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number): number => lengths[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  }
  const stretches: DiffSpan[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      stretches.push({ kind: "same", text: a[i++] ?? "" });
      j++;
    } else if (i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1))) {
      stretches.push({ kind: "removed", text: a[i++] ?? "" });
    } else {
      stretches.push({ kind: "added", text: b[j++] ?? "" });
    }
  }
  return stretches;
}

function mergeSpans(stretches: readonly DiffSpan[]): readonly DiffSpan[] {
  const whole: { kind: DiffSpan["kind"]; text: string }[] = [];
  for (const { kind, text } of stretches) {
    const last = whole.at(-1);
    if (last?.kind === kind) last.text += text;
    else if (text !== "") whole.push({ kind, text });
  }
  return whole;
}

/** One place in which two definitions differ. Absent: there is nothing at that place. */
export interface DefinitionChange {
  /** A JSON pointer. */
  readonly path: string;
  readonly before?: Json;
  readonly after?: Json;
}

const CHANGES_SHOWN = 100;
const VALUE_LENGTH = 2_000;
/** What is the same is shown so far around what is not. */
const CONTEXT = 60;

/** Where two definitions differ, as far as definitions are pinned. Without `before` everything is added. */
export function diffDefinitions(before: OfferedTool | undefined, after: OfferedTool): readonly DefinitionChange[] {
  return PINNED_FIELDS.flatMap((field) =>
    findDifferences(`/${field}`, before === undefined ? undefined : getOwn(before, field), getOwn(after, field)),
  );
}

/** The same for a person at a terminal: one line a place, nothing hidden, and not more than can be read. */
export function formatDefinitionDiff(before: OfferedTool | undefined, after: OfferedTool): readonly string[] {
  const changes = diffDefinitions(before, after);
  const lines = changes.slice(0, CHANGES_SHOWN).flatMap(formatChange);
  const left = changes.length - CHANGES_SHOWN;
  return left > 0 ? [...lines, `and ${left} more differences`] : lines;
}

function findDifferences(path: string, before: Json | undefined, after: Json | undefined): readonly DefinitionChange[] {
  if (before === after) return [];
  if (hasParts(before) && hasParts(after) && Array.isArray(before) === Array.isArray(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) =>
      findDifferences(`${path}/${escapePointer(key)}`, ownPart(before, key), ownPart(after, key)),
    );
  }
  if (before !== undefined && after !== undefined && canonicalJson(before) === canonicalJson(after)) return [];
  return [{ path, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) }];
}

/** Objects, and lists of such; a list of plain values is one value. */
function hasParts(value: Json | undefined): value is { readonly [key: string]: Json } {
  return Array.isArray(value) ? value.some((part) => typeof part === "object" && part !== null) : isRecord(value);
}

function ownPart(value: { readonly [key: string]: Json }, key: string): Json | undefined {
  return getOwn(value, key);
}

function escapePointer(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

function formatChange({ path, before, after }: DefinitionChange): readonly string[] {
  const place = truncateVisible(path);
  if (before === undefined) return [`+ ${place}: ${truncateVisible(toText(after))}`];
  if (after === undefined) return [`- ${place}: ${truncateVisible(toText(before))}`];
  if (typeof before === "string" && typeof after === "string") return [`~ ${place}: ${formatWordDiff(before, after)}`];
  return [`~ ${place}: ${truncateVisible(toText(before))} \u2192 ${truncateVisible(toText(after))}`];
}

/** Both texts in one: what was removed as `[-\u2026-]`, what was added as `{+\u2026+}`. */
function formatWordDiff(before: string, after: string): string {
  const stretches = diffWords(before, after);
  return stretches
    .map(({ kind, text }, at) => {
      if (kind === "removed") return `[-${truncateVisible(text)}-]`;
      if (kind === "added") return `{+${truncateVisible(text)}+}`;
      return trimContext(toVisibleLine(text), at > 0, at < stretches.length - 1);
    })
    .join("");
}

function trimContext(text: string, hasBefore: boolean, hasAfter: boolean): string {
  const head = hasBefore ? CONTEXT : 0;
  const tail = hasAfter ? CONTEXT : 0;
  if (text.length <= head + tail + 1) return text;
  return `${text.slice(0, head)}\u2026${tail === 0 ? "" : text.slice(-tail)}`;
}

function toText(value: Json | undefined): string {
  return typeof value === "string" ? value : canonicalJson(value);
}

/** Cut where nothing is lost unsaid. */
function truncateVisible(text: string): string {
  if (text.length <= VALUE_LENGTH) return toVisibleLine(text);
  return `${toVisibleLine(clip(text, VALUE_LENGTH))} (${text.length} characters)`;
}
