import type { Severity, SignKind } from "./sign.ts";
import { folded, unleeted, type Word } from "./words.ts";

/** Something that is said in many ways. */
export interface Phrase {
  readonly kind: SignKind;
  readonly severity: Severity;
  /**
   * Words in their order, alternatives parted by `|`; `~3` between two of them: up to three other words may stand there.
   * All stand in one sentence.
   */
  readonly words: string;
}

interface Step {
  readonly words: ReadonlySet<string>;
  /** How many other words may stand before it. */
  readonly gap: number;
}

interface Compiled {
  readonly phrase: Phrase;
  readonly steps: readonly Step[];
}

export interface PhraseFound {
  readonly phrase: Phrase;
  readonly from: number;
  readonly to: number;
}

/** Finds phrases in the words of a text, in time that grows with the number of words and nothing else. */
export function phraseFinder(phrases: readonly Phrase[]): (words: readonly Word[]) => readonly PhraseFound[] {
  const byFirst = new Map<string, Compiled[]>();
  for (const phrase of phrases) {
    const [first, ...steps] = compiled(phrase.words);
    for (const word of first?.words ?? []) {
      byFirst.set(word, [...(byFirst.get(word) ?? []), { phrase, steps }]);
    }
  }
  return (words) => {
    const found = new Map<Phrase, PhraseFound>();
    words.forEach(({ text, from }, at) => {
      for (const { phrase, steps } of byFirst.get(unleeted(text)) ?? []) {
        if (found.has(phrase)) continue;
        const last = matched(words, at, steps);
        if (last !== undefined) found.set(phrase, { phrase, from, to: last.to });
      }
    });
    return [...found.values()];
  };
}

function compiled(words: string): readonly Step[] {
  const steps: Step[] = [];
  let gap = 0;
  for (const part of folded(words).split(" ")) {
    if (part.startsWith("~")) gap = Number(part.slice(1));
    else {
      steps.push({ words: new Set(part.split("|")), gap });
      gap = 0;
    }
  }
  return steps;
}

/** The last word of the phrase that goes on after `at`. Takes the nearest word each time, and never goes back. */
function matched(words: readonly Word[], at: number, steps: readonly Step[]): Word | undefined {
  const sentence = words[at]?.sentence;
  let here = at;
  for (const { words: wanted, gap } of steps) {
    const end = here + 1 + gap;
    do here++;
    while (here < end && words[here]?.sentence === sentence && !wanted.has(words[here]?.text ?? ""));
    const word = words[here];
    if (word === undefined || word.sentence !== sentence || !wanted.has(word.text)) return undefined;
  }
  return words[here];
}
