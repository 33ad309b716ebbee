/** A stretch of a text that is in both, or in one only. */
export interface Stretch {
  readonly kind: "same" | "removed" | "added";
  readonly text: string;
}

// The table of a comparison has this many cells at most; beyond it the middle is shown as replaced.
const CELLS = 1_000_000;

/** What became of a text, word by word. Put together without what was added it is `before`, without what was removed `after`. */
export function wordDiff(before: string, after: string): readonly Stretch[] {
  const a = wordsOf(before);
  const b = wordsOf(after);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const middle = compared(a.slice(start, a.length - end), b.slice(start, b.length - end));
  return merged([
    { kind: "same", text: a.slice(0, start).join("") },
    ...middle,
    { kind: "same", text: a.slice(a.length - end).join("") },
  ]);
}

/** Words, and what is between them. */
function wordsOf(text: string): readonly string[] {
  return text.match(/[\p{L}\p{N}\p{M}_]+|\s+|[^\p{L}\p{N}\p{M}_\s]/gu) ?? [];
}

function compared(a: readonly string[], b: readonly string[]): readonly Stretch[] {
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
  const stretches: Stretch[] = [];
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

function merged(stretches: readonly Stretch[]): readonly Stretch[] {
  const whole: { kind: Stretch["kind"]; text: string }[] = [];
  for (const { kind, text } of stretches) {
    const last = whole.at(-1);
    if (last?.kind === kind) last.text += text;
    else if (text !== "") whole.push({ kind, text });
  }
  return whole;
}
