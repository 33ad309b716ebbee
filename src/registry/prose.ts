const PLACEHOLDERS = new Set([
  "todo",
  "tbd",
  "fixme",
  "wip",
  "xxx",
  "na",
  "none",
  "null",
  "nil",
  "placeholder",
  "lorem",
  "asdf",
  "foo",
  "bar",
  "later",
  "test",
  "temp",
  "tmp",
]);

const LETTERS = 12;
const WORDS = 3;

/**
 * Why a text does not count as a reason somebody gave, or undefined when it does. It is read when a call is audited,
 * so a form that was merely filled in is worse than none.
 */
export function placeholderProblem(text: unknown): string | undefined {
  if (typeof text !== "string" || text.trim() === "") return "is missing";
  const words = wordsOf(text);
  if (PLACEHOLDERS.has(words[0] ?? "") || isPlaceholder(text)) return "is a placeholder";
  const letters = words.join("").length;
  const spaced = /\p{Script=Latin}|\p{Script=Cyrillic}|\p{Script=Greek}/u.test(text);
  if (letters < LETTERS / (spaced ? 1 : 2) || (spaced && new Set(words).size < WORDS))
    return "is too short to be a reason";
  return undefined;
}

/** Whether a text says nothing but that something is still to be said. */
export function isPlaceholder(text: string): boolean {
  const words = wordsOf(text);
  return words.join("") === "na" || words.every((word) => PLACEHOLDERS.has(word));
}

function wordsOf(text: string): readonly string[] {
  return text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}
