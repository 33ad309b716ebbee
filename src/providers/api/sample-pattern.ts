import { type AST, RegExpParser } from "@eslint-community/regexpp";

const TEXT_LIMIT = 1_000;

/** A text for a regular expression, with at least `least` characters where it allows more. Lookarounds are ignored. */
export function samplePattern(pattern: string, least: number): string {
  try {
    const parsed = new RegExpParser({ ecmaVersion: 2024 }).parsePattern(pattern);
    const samples = [0, least].flatMap((repeats) =>
      parsed.alternatives.map((each) => sampleAlternatives([each], repeats)),
    );
    return samples.find(({ length }) => length >= least) ?? samples[0] ?? "";
  } catch {
    return "text";
  }
}

const sampleAlternatives = ([first]: readonly AST.Alternative[], repeats: number): string =>
  clipText((first?.elements ?? []).map((element) => sampleElement(element, repeats)).join(""));

function sampleElement(element: AST.Element, repeats: number): string {
  switch (element.type) {
    case "Character":
      return String.fromCodePoint(element.value);
    case "CharacterSet":
      return sampleSet(element);
    case "CharacterClass":
      return sampleClass(element);
    case "CapturingGroup":
    case "Group":
      return sampleAlternatives(element.alternatives, repeats);
    case "Quantifier": {
      const count = Math.min(Math.max(element.min, repeats), element.max, TEXT_LIMIT);
      const inner = sampleElement(element.element, 0);
      return clipText(inner.repeat(count));
    }
    default:
      return "";
  }
}

const sampleSet = (set: AST.CharacterSet): string =>
  set.kind === "digit" ? "0" : set.kind === "space" ? " " : set.kind === "word" && set.negate ? "-" : "a";

function sampleClass({ elements, negate, raw }: AST.CharacterClass): string {
  if (negate) return [..."aA0_- .\u00e9"].find((sign) => new RegExp(raw).test(sign)) ?? "";
  const [first] = elements;
  if (first?.type === "Character") return String.fromCodePoint(first.value);
  if (first?.type === "CharacterClassRange") return String.fromCodePoint(first.min.value);
  return first?.type === "CharacterSet" ? sampleSet(first) : "a";
}

const clipText = (text: string) => text.slice(0, TEXT_LIMIT);
