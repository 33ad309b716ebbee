import { clip } from "../../../core/json.ts";
import { visible } from "../../../core/visible.ts";
import type { OfferedTool } from "../offer.ts";
import { charactersFound } from "./characters.ts";
import { encodedFound } from "./encoded.ts";
import type { Finding } from "./finding.ts";
import { imagesFound } from "./links.ts";
import { marksFound } from "./marks.ts";
import { otherToolsFound, type Surroundings, shadowingFound } from "./other-tools.ts";
import { phraseBook } from "./phrase-book.ts";
import { phraseFinder } from "./phrases.ts";
import { secretPlacesFound } from "./secret-places.ts";
import type { Severity, Sign, SignKind } from "./sign.ts";
import { type DefinitionText, textsOf } from "./texts.ts";
import { folded, partsOf, wordsOf } from "./words.ts";

const findPhrases = phraseFinder(phraseBook);
const EXCERPT = 120;
const SIGNS = 20;

/**
 * Looks for signs that a definition was written to mislead: each kind once at each place, the serious ones first. Takes
 * time that grows with the length of the definition and nothing else.
 */
export function scan(tool: OfferedTool, around: Surroundings): readonly Sign[] {
  const signs = textsOf(tool).flatMap((text) => signsOf(text, around));
  return [...signs.filter(isSerious), ...signs.filter((sign) => !isSerious(sign))].slice(0, SIGNS);
}

function signsOf({ where, text, role }: DefinitionText, around: Surroundings): readonly Sign[] {
  const isName = role === "name";
  const raw = [...charactersFound(text, isName), ...encodedFound(text)];
  const read = isName ? folded(`${partsOf(text)}\n${text}`) : folded(text);
  const words = wordsOf(read);
  const said = [
    ...marksFound(read),
    ...findPhrases(words).map(({ phrase, from, to }) => ({ kind: phrase.kind, severity: phrase.severity, from, to })),
    ...imagesFound(read),
    ...secretPlacesFound(read, words),
    ...(isName ? [] : otherToolsFound(words, around)),
    ...(where === "/name" ? shadowingFound(text, around) : []),
  ];
  return [...worst(raw).map(signIn(where, text)), ...worst(said).map(signIn(where, read))];
}

/** One finding of each kind. */
function worst(findings: readonly Finding[]): readonly Finding[] {
  const byKind = new Map<SignKind, Finding>();
  for (const finding of findings) {
    const other = byKind.get(finding.kind);
    if (other === undefined || (other.severity === "mild" && isSerious(finding))) byKind.set(finding.kind, finding);
  }
  return [...byKind.values()];
}

function signIn(where: string, text: string): (finding: Finding) => Sign {
  return ({ kind, severity, from, to }) => {
    const excerpt = visible(text.slice(Math.max(0, from - EXCERPT / 4), Math.min(to + EXCERPT / 4, from + EXCERPT)));
    return { kind, severity, where, excerpt: clip(excerpt.trim(), EXCERPT) };
  };
}

function isSerious({ severity }: { readonly severity: Severity }): boolean {
  return severity === "serious";
}
