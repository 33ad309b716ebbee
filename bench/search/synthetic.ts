import type { Tool } from "./data.ts";
import { chance } from "./sample.ts";

const verbs = "get list find create update delete send archive export import merge assign close open approve".split(
  " ",
);

/**
 * `count` tools with the vocabulary of real tools: first real tools, shuffled, then combinations of two, so that words keep
 * their frequencies. Without real tools, they are made of words of which few are common and most rare.
 */
export function manyTools(real: readonly Tool[], count: number): readonly Tool[] {
  const next = chance(3);
  const pick = <T>(items: readonly T[]): T | undefined => items[Math.floor(next() * items.length)];
  const shuffled = real
    .map((tool) => ({ tool, key: next() }))
    .sort((a, b) => a.key - b.key)
    .map(({ tool }) => tool);
  return Array.from({ length: count }, (_, index) => {
    const [known, named, described] = [shuffled[index], pick(real), pick(real)];
    if (known !== undefined) return known;
    if (named === undefined || described === undefined) return madeUp(index, next);
    return { ...described, id: `crossed ${index}`, name: `${named.name}_${pick(verbs)}` };
  });
}

/** Queries made of some words of the tools. */
export function someQueries(tools: readonly Tool[], count: number): readonly string[] {
  const next = chance(5);
  return Array.from({ length: count }, () => {
    const { name = "", description = "" } = tools[Math.floor(next() * tools.length)] ?? {};
    const words = `${name.replaceAll("_", " ")} ${description}`.split(" ").filter(() => next() < 0.5);
    return words.slice(0, 2 + Math.floor(next() * 10)).join(" ");
  });
}

function madeUp(index: number, next: () => number): Tool {
  const words = (some: number): string => Array.from({ length: some }, () => word(next)).join(" ");
  return {
    id: String(index),
    name: `${verbs[index % verbs.length]}_${words(2).replaceAll(" ", "_")}_${index}`,
    server: word(next),
    description: `${words(8 + Math.floor(next() * 25))}.`,
    inputSchema: {
      type: "object",
      properties: Object.fromEntries(
        Array.from({ length: 1 + Math.floor(next() * 5) }, () => [
          word(next),
          { type: "string", description: words(6) },
        ]),
      ),
    },
  };
}

const VOCABULARY = 30_000;
const syllables = "ba ke lo mi nu ra se to vi za dor fen gal hip jun kar lim mos net pol".split(" ");

/** The n-th most common word is n times rarer than the first, as in real text. */
function word(next: () => number): string {
  let rank = Math.floor(VOCABULARY ** next());
  let text = "";
  do {
    text += syllables[rank % syllables.length];
    rank = Math.floor(rank / syllables.length);
  } while (rank > 0);
  return text;
}
