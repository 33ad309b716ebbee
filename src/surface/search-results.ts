import { z } from "zod";
import { type Action, type JsonSchema, type Readiness, readinesses, summarizeAction } from "../core/action.ts";
import { toOneLine } from "../core/display-text.ts";
import { clip, getOwn, isRecord, type Json, omitUndefined } from "../core/json.ts";
import type { Hit } from "../search/hits.ts";
import type { CatalogSearchResult } from "../search/search.ts";

const UNION_LIMIT = 4;
const WORD_LIMIT = 24;

/** The parameters on one line, required ones first: `(path: string, limit?: integer, +2)`. The rest is counted. */
export function formatSignature({ inputSchema }: Pick<Action, "inputSchema">, atMost = 8): string {
  const properties = Object.entries(asObject(getOwn(inputSchema, "properties")));
  const listed = getOwn(inputSchema, "required");
  const required = new Set(Array.isArray(listed) ? listed : []);
  const ordered = properties.sort(([a], [b]) => Number(required.has(b)) - Number(required.has(a)));
  const parameters = ordered
    .slice(0, atMost)
    .map(([name, schema]) => `${clipWord(name)}${required.has(name) ? "" : "?"}: ${formatType(schema)}`);
  return `(${joinCounted(parameters, ordered.length)})`;
}

const joinCounted = (shown: readonly string[], total: number): string =>
  [...shown, ...(total > shown.length ? [`+${total - shown.length}`] : [])].join(", ");

function formatType(schema: Json, depth = 0): string {
  const { type, enum: values, const: only, items, anyOf, oneOf } = asObject(schema);
  if (only !== undefined) return formatLiteral(only);
  if (Array.isArray(values)) return formatUnion(values.map(formatLiteral));
  const either = anyOf ?? oneOf;
  if (Array.isArray(either) && depth < 2) return formatUnion(either.map((each) => formatType(each, depth + 1)));
  if (type === "array" && depth < 2) {
    const item = items === undefined ? "any" : formatType(items, depth + 1);
    return item.includes("|") ? `(${item})[]` : `${item}[]`;
  }
  if (type === "object" && depth < 2) return formatShape(asObject(schema));
  if (Array.isArray(type)) return formatUnion(type.map((each) => clipWord(String(each))));
  return typeof type === "string" ? clipWord(type) : "any";
}

/** `{start, end, +2}` */
function formatShape(schema: JsonSchema): string {
  const names = Object.keys(asObject(getOwn(schema, "properties"))).map(clipWord);
  return names.length === 0 ? "object" : `{${joinCounted(names.slice(0, UNION_LIMIT), names.length)}}`;
}

function formatUnion(members: readonly string[]): string {
  const different = [...new Set(members)];
  const shown = different.slice(0, UNION_LIMIT).join("|");
  return different.length > UNION_LIMIT ? `${shown}|…` : shown || "any";
}

/** One line, because text from a foreign schema must not look like a line of the answer. */
const clipWord = (text: string): string => clip(toOneLine(text), WORD_LIMIT);
const formatLiteral = (value: Json): string => clipWord(JSON.stringify(value));
const asObject = (value: Json | undefined): JsonSchema => (isRecord(value) ? (value as JsonSchema) : {});
const HIGHEST_LIMIT = 20;
export const searchLimitShape = z.int().min(1).describe(`At most ${HIGHEST_LIMIT}`).default(8);
export const clampLimit = (limit: number): number => Math.min(limit, HIGHEST_LIMIT);

/** The search's note and, without hits, the `next` step. */
export function composeHint({ hits, note }: CatalogSearchResult, next: () => string): string | undefined {
  if (hits.length > 0) return note;
  return note === undefined ? next() : `${next()} ${note}`;
}

export function toSearchFacts({ effective, unmatched }: CatalogSearchResult, hint: string | undefined) {
  return omitUndefined({ search_type: effective, unmatched: unmatched.length === 0 ? undefined : unmatched, hint });
}

/** The same as lines for the model. `subject`: "No tool", "Nothing available". */
export function formatNotes(
  subject: string,
  { unmatched }: CatalogSearchResult,
  ...hints: readonly (string | undefined)[]
): readonly string[] {
  const missing = unmatched.length === 0 ? [] : [`${subject} has: ${unmatched.join(", ")}`];
  return [...missing, ...hints.filter((hint) => hint !== undefined)];
}

const TOKENS_PER_HIT = 250 / 8;
const DEFAULT_HITS = 8;
/** The estimate is up to 15 % too low, measured over 25,000 real tools in groups of eight. */
const ESTIMATE_FACTOR = 0.86;
/** Characters of each note beside the hits. */
const NOTE_LIMIT = 240;

/** Characters of the summary and number of parameters, from long to short. */
const levels = [
  { summary: 160, parameters: 8 },
  { summary: 110, parameters: 6 },
  { summary: 80, parameters: 4 },
  { summary: 60, parameters: 3 },
  { summary: 40, parameters: 2 },
  { summary: 24, parameters: 1 },
  { summary: 0, parameters: 0 },
] as const;

/** An action as a search result: enough to choose by, and to call a simple one. */
export interface ActionCandidate {
  readonly name: string;
  readonly summary: string;
  readonly signature: string;
  readonly score: number;
  /** Why it cannot be used right away. */
  readonly state?: Exclude<Readiness, "ready">;
}

/** Fits a token budget: shortens summaries and signatures first, then leaves out and counts the last hits. */
export function formatHits(hits: readonly Hit[], after: readonly string[] = []) {
  const budget = Math.max(hits.length, DEFAULT_HITS) * TOKENS_PER_HIT * ESTIMATE_FACTOR;
  const states = hits.map(({ action }) => readState(action));
  const notes = after.map((note) => clip(toOneLine(note), NOTE_LIMIT));
  let items: readonly ActionCandidate[] = [];
  let text = "";
  for (const level of levels) {
    items = hits.map((hit, at) => ({ ...toCandidate(hit, level), ...states[at] }));
    text = [...items.map(formatLine), ...notes].join("\n");
    if (estimateTokens(text) <= budget) return { items, text };
  }
  while (items.length > 1 && estimateTokens(text) > budget) {
    items = items.slice(0, -1);
    text = [...items.map(formatLine), `+${hits.length - items.length} more`, ...notes].join("\n");
  }
  return { items, text };
}

/** Empty if the action is ready. `unavailable` if its provider fails to say. */
export function readState(action: Action): Pick<ActionCandidate, "state"> {
  let answered: unknown;
  try {
    answered = action.readiness === undefined ? "ready" : action.readiness();
  } catch {
    answered = undefined;
  }
  const state = readinesses.find((each) => each === answered) ?? "unavailable";
  return state === "ready" ? {} : { state };
}

const toCandidate = ({ action, score }: Hit, level: (typeof levels)[number]): ActionCandidate => ({
  name: action.name,
  summary: level.summary === 0 ? "" : clip(toOneLine(summarizeAction(action)), level.summary),
  signature: formatSignature(action, level.parameters),
  score: Math.round(score * 100) / 100,
});

function formatLine({ name, signature, summary, score, state }: ActionCandidate): string {
  const facts = state === undefined ? `${score}` : `${score}, ${state.replaceAll("_", " ")}`;
  return `${name}${signature} [${facts}]${summary === "" ? "" : ` ${summary}`}`;
}

const TOKEN_PIECES = /\p{Lu}?[a-z]+|\p{Lu}+|\d{1,3}|\s+|[!-/:-@[-`{-~]+|./gsu;

/** Estimates o200k tokens, rather too many, without the table for exact counts (70 MB). */
export function estimateTokens(text: string): number {
  let tokens = 0;
  for (const [piece] of text.matchAll(TOKEN_PIECES)) tokens += piece === " " ? 0 : estimatePieceTokens(piece);
  return tokens;
}

function estimatePieceTokens(piece: string): number {
  if (/^[A-Za-z]/.test(piece)) {
    if (piece.length > 4 && !/[aeiouy]/i.test(piece)) return Math.ceil(piece.length / 2);
    return piece.length <= 8 ? 1 : Math.ceil(piece.length / 6);
  }
  if (/^[\d\s]/.test(piece)) return 1;
  if (piece.charCodeAt(0) < 128) return Math.ceil(piece.length / 2);
  // Letters of common scripts are one token; others take one per byte.
  return COMMON_SCRIPTS.test(piece) ? 1 : Buffer.byteLength(piece);
}

const COMMON_SCRIPTS =
  /[\p{sc=Latn}\p{sc=Cyrl}\p{sc=Grek}\p{sc=Arab}\p{sc=Hebr}\p{sc=Deva}\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\p{sc=Thai}\p{P}\p{M}ー]/u;
