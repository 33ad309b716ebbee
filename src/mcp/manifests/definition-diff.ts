import { toVisibleLine } from "../../core/display-text.ts";
import { canonicalJson, clip, getOwn, isRecord, type Json, omitUndefined } from "../../core/json.ts";
import { type OfferedTool, PINNED_FIELDS } from "./offer.ts";

/** A place where two definitions differ. An absent side has no value there. */
export type DefinitionChange = { readonly path: string; readonly before?: Json; readonly after?: Json };
const MAX_CHANGES = 100;
const MAX_VALUE_LENGTH = 2_000;
/** Characters of unchanged text that are shown around a change. */
const CONTEXT = 60;
/** The size limit of the comparison table. Beyond it, the changed middle is shown as replaced. */
const MAX_CELLS = 1_000_000;

/** The differences in the pinned fields. Without `before` everything is added. */
export function diffDefinitions(before: OfferedTool | undefined, after: OfferedTool): readonly DefinitionChange[] {
  return PINNED_FIELDS.flatMap((field) =>
    findDifferences(`/${field}`, before === undefined ? undefined : getOwn(before, field), getOwn(after, field)),
  );
}

/** The differences for a terminal, one line per place. Control characters are made visible. */
export function formatDefinitionDiff(before: OfferedTool | undefined, after: OfferedTool): readonly string[] {
  const changes = diffDefinitions(before, after);
  const lines = changes.slice(0, MAX_CHANGES).map(formatChange);
  const left = changes.length - MAX_CHANGES;
  return left > 0 ? [...lines, `and ${left} more differences`] : lines;
}

function findDifferences(path: string, before: Json | undefined, after: Json | undefined): readonly DefinitionChange[] {
  if (before === after) return [];
  if (hasParts(before) && hasParts(after) && Array.isArray(before) === Array.isArray(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => {
      const pointer = `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
      return findDifferences(pointer, getOwn(before, key), getOwn(after, key));
    });
  }
  if (before !== undefined && after !== undefined && canonicalJson(before) === canonicalJson(after)) return [];
  return [{ path, ...omitUndefined({ before, after }) }];
}

/** Objects and lists of objects. A list of plain values counts as one value. */
function hasParts(value: Json | undefined): value is { readonly [key: string]: Json } {
  return Array.isArray(value) ? value.some((part) => typeof part === "object" && part !== null) : isRecord(value);
}

function formatChange({ path, before, after }: DefinitionChange): string {
  const place = truncateVisible(path);
  if (before === undefined) return `+ ${place}: ${truncateVisible(toText(after))}`;
  if (after === undefined) return `- ${place}: ${truncateVisible(toText(before))}`;
  if (typeof before === "string" && typeof after === "string") return `~ ${place}: ${formatWordDiff(before, after)}`;
  return `~ ${place}: ${truncateVisible(toText(before))} \u2192 ${truncateVisible(toText(after))}`;
}

/** Both texts in one: removed words as `[-\u2026-]`, added words as `{+\u2026+}`. */
function formatWordDiff(before: string, after: string): string {
  const spans = diffWords(before, after);
  return spans
    .map(({ kind, text }, at) => {
      if (kind === "removed") return `[-${truncateVisible(text)}-]`;
      if (kind === "added") return `{+${truncateVisible(text)}+}`;
      return trimContext(toVisibleLine(text), at > 0, at < spans.length - 1);
    })
    .join("");
}

function trimContext(text: string, hasBefore: boolean, hasAfter: boolean): string {
  const head = hasBefore ? CONTEXT : 0;
  const tail = hasAfter ? CONTEXT : 0;
  if (text.length <= head + tail + 1) return text;
  return `${text.slice(0, head)}\u2026${tail === 0 ? "" : text.slice(-tail)}`;
}

const toText = (value: Json | undefined): string => (typeof value === "string" ? value : canonicalJson(value));

function truncateVisible(text: string): string {
  if (text.length <= MAX_VALUE_LENGTH) return toVisibleLine(text);
  return `${toVisibleLine(clip(text, MAX_VALUE_LENGTH))} (${text.length} characters)`;
}

type DiffSpan = { readonly kind: "same" | "removed" | "added"; readonly text: string };

/** A word diff. The spans without `added` join to `before`, those without `removed` to `after`. */
export function diffWords(before: string, after: string): readonly DiffSpan[] {
  const a = splitWordsAndGaps(before);
  const b = splitWordsAndGaps(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  return mergeSpans([
    { kind: "same", text: a.slice(0, start).join("") },
    ...compareWords(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    { kind: "same", text: a.slice(a.length - end).join("") },
  ]);
}

const splitWordsAndGaps = (text: string): readonly string[] =>
  text.match(/[\p{L}\p{N}\p{M}_]+|\s+|[^\p{L}\p{N}\p{M}_\s]/gu) ?? [];

function compareWords(a: readonly string[], b: readonly string[]): readonly DiffSpan[] {
  const markRemoved = (text: string): DiffSpan => ({ kind: "removed", text });
  const markAdded = (text: string): DiffSpan => ({ kind: "added", text });
  if (a.length * b.length > MAX_CELLS) return [markRemoved(a.join("")), markAdded(b.join(""))];
  // The length of the longest common subsequence of a[i...] and b[j...].
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number): number => lengths[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  }
  const spans: DiffSpan[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      spans.push({ kind: "same", text: a[i++] ?? "" });
      j++;
    } else if (i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1))) spans.push(markRemoved(a[i++] ?? ""));
    else spans.push(markAdded(b[j++] ?? ""));
  }
  return spans;
}

function mergeSpans(spans: readonly DiffSpan[]): readonly DiffSpan[] {
  const merged: { kind: DiffSpan["kind"]; text: string }[] = [];
  for (const { kind, text } of spans) {
    const last = merged.at(-1);
    if (last?.kind === kind) last.text += text;
    else if (text !== "") merged.push({ kind, text });
  }
  return merged;
}
