import { toVisibleLine } from "../../../core/display-text.ts";
import { clip, isRecord } from "../../../core/json.ts";
import type { OfferedTool } from "../offer.ts";
import type { FindingKind, FindingSeverity, ScanFinding, TextFinding } from "./finding.ts";
import { findEncodedText, findHiddenCharacters } from "./hidden-text.ts";
import { findPhrases } from "./suspicious-phrases.ts";
import { findImageLinks, findPromptMarkers, findSecretPaths } from "./suspicious-text.ts";
import { foldForScan, splitFoldedWords, splitIdentifier } from "./text-words.ts";
import { findOtherTools, findShadowing, type OfferedNames } from "./tool-names.ts";

interface DefinitionText {
  /** A JSON pointer. For the name of a property it points to the property. */
  readonly where: string;
  readonly text: string;
  /** Whether it is an identifier rather than prose. */
  readonly isName: boolean;
}

// Offers are limited before; these limits are for definitions from elsewhere.
const MAX_TEXTS = 20_000;
const MAX_LENGTH = 256 * 1024;
const EXCERPT_LENGTH = 120;
const MAX_FINDINGS = 20;

/** Finds signs of a definition that misleads models: each kind once per place, serious first. Takes linear time. */
export function scanDefinition(tool: OfferedTool, names: OfferedNames): readonly ScanFinding[] {
  const findings = collectTexts(tool).flatMap((text) => scanText(text, names));
  return [...findings.filter(isSerious), ...findings.filter((each) => !isSerious(each))].slice(0, MAX_FINDINGS);
}

/** Every text in the pinned fields, including keys and values of schemas and annotations. */
function collectTexts({ name, title, description, inputSchema, outputSchema, annotations, skill }: OfferedTool) {
  const texts: DefinitionText[] = [];
  let left = MAX_LENGTH;
  const add = (where: string, text: string, isName: boolean): void => {
    if (texts.length >= MAX_TEXTS || left <= 0) return;
    texts.push({ where, text: text.slice(0, left), isName });
    left -= text.length;
  };
  add("/name", name, true);
  const { frontmatter } = skill ?? {};
  const fields = Object.entries({ title, description, inputSchema, outputSchema, annotations, frontmatter });
  const open = fields.map(([field, value]) => ({ where: `/${field}`, value: value as unknown }));
  // No recursion, since a schema may be very deep.
  for (let next = open.pop(); next !== undefined && left > 0; next = open.pop()) {
    const { where, value } = next;
    if (typeof value === "string") add(where, value, false);
    else if (Array.isArray(value)) {
      for (const [at, part] of value.entries()) open.push({ where: `${where}/${at}`, value: part });
    } else if (isRecord(value)) {
      for (const [key, part] of Object.entries(value)) {
        const place = `${where}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
        if (!KEYWORDS.test(key)) add(place, key, true);
        open.push({ where: place, value: part });
      }
    }
  }
  return texts;
}

/** Common keywords of JSON Schema and annotations, which need no scan. */
const KEYWORDS =
  /^(?:type|properties|required|description|title|items|enum|default|anyOf|oneOf|allOf|format|minimum|maximum|additionalProperties|readOnlyHint|destructiveHint|idempotentHint|openWorldHint|\$schema|minLength|maxLength|examples|const|pattern|\$ref|\$defs|minItems|maxItems)$/;

function scanText({ where, text, isName }: DefinitionText, names: OfferedNames): readonly ScanFinding[] {
  const raw = [...findHiddenCharacters(text, isName), ...findEncodedText(text)];
  const read = isName ? foldForScan(`${splitIdentifier(text)}\n${text}`) : foldForScan(text);
  const words = splitFoldedWords(read);
  const said = [
    ...findPromptMarkers(read),
    ...findPhrases(words),
    ...findImageLinks(read),
    ...findSecretPaths(read, words),
    ...(isName ? [] : findOtherTools(words, names)),
    ...(where === "/name" ? findShadowing(text, names) : []),
  ];
  return [
    ...selectWorst(raw).map((finding) => toScanFinding(finding, where, text)),
    ...selectWorst(said).map((finding) => toScanFinding(finding, where, read)),
  ];
}

function selectWorst(findings: readonly TextFinding[]): readonly TextFinding[] {
  const byKind = new Map<FindingKind, TextFinding>();
  for (const finding of findings) {
    const other = byKind.get(finding.kind);
    if (other === undefined || (other.severity === "mild" && isSerious(finding))) byKind.set(finding.kind, finding);
  }
  return [...byKind.values()];
}

function toScanFinding({ kind, severity, from, to }: TextFinding, where: string, text: string): ScanFinding {
  const margin = EXCERPT_LENGTH / 4;
  const excerpt = text.slice(Math.max(0, from - margin), Math.min(to + margin, from + EXCERPT_LENGTH));
  return { kind, severity, where, excerpt: clip(toVisibleLine(excerpt).trim(), EXCERPT_LENGTH) };
}

const isSerious = ({ severity }: { readonly severity: FindingSeverity }): boolean => severity === "serious";
