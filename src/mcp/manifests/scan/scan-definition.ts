import { toVisibleLine } from "../../../core/display-text.ts";
import { clip, isRecord } from "../../../core/json.ts";
import type { OfferedTool } from "../offer.ts";
import type { FindingKind, FindingSeverity, ScanFinding, TextFinding } from "./finding.ts";
import { findEncodedText, findHiddenCharacters } from "./hidden-text.ts";
import { createPhraseFinder, suspiciousPhrases } from "./suspicious-phrases.ts";
import { findImageLinks, findPromptMarkers, findSecretPaths } from "./suspicious-text.ts";
import { foldForScan, splitFoldedWords, splitIdentifier } from "./text-words.ts";
import { findOtherTools, findShadowing, type OfferedNames } from "./tool-names.ts";

/** One text of a definition that a model may get to read. */
interface DefinitionText {
  /** A JSON pointer; of a property's name, the one to the property. */
  readonly where: string;
  readonly text: string;
  /** `name`: of the tool or of a property, an identifier rather than prose. */
  readonly role: "name" | "prose";
}

// Beyond these nobody reads. Offers are bounded before; a definition from elsewhere must not be worse.
const TEXTS = 20_000;
const LENGTH = 256 * 1024;

/** Every text of a definition that is pinned: keys and values of its schemas and annotations among them. */
function collectTexts({ name, title, description, inputSchema, outputSchema, annotations }: OfferedTool) {
  const texts: DefinitionText[] = [];
  let left = LENGTH;
  const add = (where: string, text: string, role: DefinitionText["role"]): void => {
    if (texts.length >= TEXTS || left <= 0) return;
    texts.push({ where, text: text.slice(0, left), role });
    left -= text.length;
  };
  add("/name", name, "name");
  const open: { readonly where: string; readonly value: unknown }[] = [];
  for (const [field, value] of Object.entries({ title, description, inputSchema, outputSchema, annotations })) {
    open.push({ where: `/${field}`, value });
  }
  // Without recursion: a schema may be as deep as it likes.
  for (let next = open.pop(); next !== undefined && left > 0; next = open.pop()) {
    const { where, value } = next;
    if (typeof value === "string") add(where, value, "prose");
    else if (Array.isArray(value)) {
      for (const [at, part] of value.entries()) open.push({ where: `${where}/${at}`, value: part });
    } else if (isRecord(value)) {
      for (const [key, part] of Object.entries(value)) {
        const place = `${where}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
        if (!KEYWORDS.has(key)) add(place, key, "name");
        open.push({ where: place, value: part });
      }
    }
  }
  return texts;
}

/** Keys that say nothing: the commonest words of JSON Schema and of annotations. */
const KEYWORDS: ReadonlySet<string> = new Set(
  "type properties required description title items enum default anyOf oneOf allOf format minimum maximum additionalProperties readOnlyHint destructiveHint idempotentHint openWorldHint $schema minLength maxLength examples const pattern $ref $defs minItems maxItems".split(
    " ",
  ),
);

const findPhrases = createPhraseFinder(suspiciousPhrases);
const EXCERPT = 120;
const SIGNS = 20;

/**
 * Looks for signs that a definition was written to mislead: each kind once at each place, the serious ones first. Takes
 * time that grows with the length of the definition and nothing else.
 */
export function scanDefinition(tool: OfferedTool, around: OfferedNames): readonly ScanFinding[] {
  const signs = collectTexts(tool).flatMap((text) => scanText(text, around));
  return [...signs.filter(isSerious), ...signs.filter((sign) => !isSerious(sign))].slice(0, SIGNS);
}

function scanText({ where, text, role }: DefinitionText, around: OfferedNames): readonly ScanFinding[] {
  const isName = role === "name";
  const raw = [...findHiddenCharacters(text, isName), ...findEncodedText(text)];
  const read = isName ? foldForScan(`${splitIdentifier(text)}\n${text}`) : foldForScan(text);
  const words = splitFoldedWords(read);
  const said = [
    ...findPromptMarkers(read),
    ...findPhrases(words).map(({ phrase, from, to }) => ({ kind: phrase.kind, severity: phrase.severity, from, to })),
    ...findImageLinks(read),
    ...findSecretPaths(read, words),
    ...(isName ? [] : findOtherTools(words, around)),
    ...(where === "/name" ? findShadowing(text, around) : []),
  ];
  return [
    ...selectWorst(raw).map(createFindingMapper(where, text)),
    ...selectWorst(said).map(createFindingMapper(where, read)),
  ];
}

/** One finding of each kind. */
function selectWorst(findings: readonly TextFinding[]): readonly TextFinding[] {
  const byKind = new Map<FindingKind, TextFinding>();
  for (const finding of findings) {
    const other = byKind.get(finding.kind);
    if (other === undefined || (other.severity === "mild" && isSerious(finding))) byKind.set(finding.kind, finding);
  }
  return [...byKind.values()];
}

function createFindingMapper(where: string, text: string): (finding: TextFinding) => ScanFinding {
  return ({ kind, severity, from, to }) => {
    const excerpt = toVisibleLine(
      text.slice(Math.max(0, from - EXCERPT / 4), Math.min(to + EXCERPT / 4, from + EXCERPT)),
    );
    return { kind, severity, where, excerpt: clip(excerpt.trim(), EXCERPT) };
  };
}

function isSerious({ severity }: { readonly severity: FindingSeverity }): boolean {
  return severity === "serious";
}
