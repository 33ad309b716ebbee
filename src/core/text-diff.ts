import { formatCount } from "./display-text.ts";

/** The size limit of the comparison table. Beyond it, the changed middle is shown as replaced. */
const MAX_CELLS = 1_000_000;
/** Unchanged lines that are shown around a change. */
const CONTEXT_LINES = 3;

type DiffSpan = { readonly kind: "same" | "removed" | "added"; readonly text: string };

/** A word diff. The spans without `added` join to `before`, those without `removed` to `after`. */
export const diffWords = (before: string, after: string): readonly DiffSpan[] =>
  mergeSpans(compare(splitWordsAndGaps(before), splitWordsAndGaps(after)));

/** The changed lines, with `-` or `+` before them, and the lines around them. */
export function diffLines(before: string, after: string): readonly string[] {
  const spans = compare(before.split("\n"), after.split("\n"));
  const isNear = new Set<number>();
  spans.forEach(({ kind }, at) => {
    if (kind === "same") return;
    for (let near = at - CONTEXT_LINES; near <= at + CONTEXT_LINES; near++) isNear.add(near);
  });
  const lines: string[] = [];
  let left = 0;
  const endGap = (): void => {
    if (left > 0) lines.push(`  … ${formatCount(left, "unchanged line")}`);
    left = 0;
  };
  spans.forEach(({ kind, text }, at) => {
    if (!isNear.has(at)) left++;
    else {
      endGap();
      lines.push(`${MARKS[kind]} ${text}`);
    }
  });
  endGap();
  return lines;
}

const MARKS = { same: " ", removed: "-", added: "+" } as const;

const splitWordsAndGaps = (text: string): readonly string[] =>
  text.match(/[\p{L}\p{N}\p{M}_]+|\s+|[^\p{L}\p{N}\p{M}_\s]/gu) ?? [];

/** One span for each word or line. */
function compare(a: readonly string[], b: readonly string[]): readonly DiffSpan[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  return [
    ...a.slice(0, start).map(markSame),
    ...compareMiddle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...a.slice(a.length - end).map(markSame),
  ];
}

const markSame = (text: string): DiffSpan => ({ kind: "same", text });
const markRemoved = (text: string): DiffSpan => ({ kind: "removed", text });
const markAdded = (text: string): DiffSpan => ({ kind: "added", text });

function compareMiddle(a: readonly string[], b: readonly string[]): readonly DiffSpan[] {
  if (a.length * b.length > MAX_CELLS) return [...a.map(markRemoved), ...b.map(markAdded)];
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
      spans.push(markSame(a[i++] ?? ""));
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
