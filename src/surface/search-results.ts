import { z } from "zod";
import { type Action, type JsonSchema, type Readiness, readinesses, summarizeAction } from "../core/action.ts";
import { toOneLine } from "../core/display-text.ts";
import { clip, getOwn, type Json } from "../core/json.ts";
import type { Hit } from "../search/hits.ts";
import type { CatalogSearchResult } from "../search/search.ts";

const UNION_LIMIT = 4;
const WORD_LIMIT = 24;

/**
 * The parameters of an action on one line, required ones first: `(path: string, limit?: integer)`. After `atMost` of
 * them the rest is counted, so that a schema of any size stays a line.
 */
export function formatSignature({ inputSchema }: Pick<Action, "inputSchema">, atMost = 8): string {
  const properties = Object.entries(asObject(getOwn(inputSchema, "properties")));
  const listed = getOwn(inputSchema, "required");
  const required = new Set(Array.isArray(listed) ? listed : []);
  const ordered = [
    ...properties.filter(([name]) => required.has(name)),
    ...properties.filter(([name]) => !required.has(name)),
  ];
  const shown = ordered
    .slice(0, atMost)
    .map(([name, schema]) => `${clipWord(name)}${required.has(name) ? "" : "?"}: ${formatType(schema)}`);
  const rest = ordered.length - shown.length;
  return `(${[...shown, ...(rest > 0 ? [`+${rest}`] : [])].join(", ")})`;
}

function formatType(schema: Json, depth = 0): string {
  const { type, enum: values, const: only, items, anyOf, oneOf } = asObject(schema);
  if (only !== undefined) return formatLiteral(only);
  if (Array.isArray(values)) return formatUnion(values.map(formatLiteral));
  const either = anyOf ?? oneOf;
  if (Array.isArray(either) && depth < 2) return formatUnion(either.map((each) => formatType(each, depth + 1)));
  if (type === "array" && depth < 2)
    return `${items === undefined ? "any" : addBrackets(formatType(items, depth + 1))}[]`;
  if (type === "object" && depth < 2) return formatShape(asObject(schema));
  if (Array.isArray(type)) return formatUnion(type.map((each) => clipWord(String(each))));
  return typeof type === "string" ? clipWord(type) : "any";
}

/** The keys of an object inside: `{start, end}`, and how many more. */
function formatShape(schema: JsonSchema): string {
  const names = Object.keys(asObject(getOwn(schema, "properties"))).map(clipWord);
  if (names.length === 0) return "object";
  const rest = names.length - UNION_LIMIT;
  return `{${[...names.slice(0, UNION_LIMIT), ...(rest > 0 ? [`+${rest}`] : [])].join(", ")}}`;
}

function formatUnion(members: readonly string[]): string {
  const different = [...new Set(members)];
  const shown = different.slice(0, UNION_LIMIT).join("|");
  return different.length > UNION_LIMIT ? `${shown}|…` : shown || "any";
}

function addBrackets(type: string): string {
  return type.includes("|") ? `(${type})` : type;
}

/** A schema comes from outside: what it holds must not look like a line of the answer's own. */
function clipWord(text: string): string {
  return clip(toOneLine(text), WORD_LIMIT);
}

function formatLiteral(value: Json): string {
  return clipWord(JSON.stringify(value));
}

function asObject(value: Json | undefined): JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonSchema) : {};
}

const HIGHEST_LIMIT = 20;

/** How many hits a model asks for, as its tool says it. */
export const searchLimitShape = z.int().min(1).describe(`At most ${HIGHEST_LIMIT}`).default(8);

/** How many it is given. */
export function clampLimit(limit: number): number {
  return Math.min(limit, HIGHEST_LIMIT);
}

/** What is said beside the hits: the search's own note, and where there are no hits what to do `next`. */
export function composeHint({ hits, note }: CatalogSearchResult, next: () => string): string | undefined {
  if (hits.length > 0) return note;
  return note === undefined ? next() : `${next()} ${note}`;
}

/** The part of an answer that every search has. */
export function toSearchFacts({ effective, unmatched }: CatalogSearchResult, hint: string | undefined) {
  return {
    search_type: effective,
    ...(unmatched.length === 0 ? {} : { unmatched }),
    ...(hint === undefined ? {} : { hint }),
  };
}

/** The same in the lines that a model reads. `nobody`: how those are called who could have had the words. */
export function formatNotes(
  nobody: string,
  { unmatched }: CatalogSearchResult,
  hint: string | undefined,
): readonly string[] {
  const missing = unmatched.length === 0 ? [] : [`${nobody} has: ${unmatched.join(", ")}`];
  return hint === undefined ? missing : [...missing, hint];
}

/** What an answer of eight hits may cost; more hits may cost more in proportion. */
const TOKENS_PER_HIT = 250 / 8;
const DEFAULT_HITS = 8;
/** The estimate is up to 15 % below what o200k counts, over 25,000 real tools taken eight at a time. */
const ESTIMATE_FACTOR = 0.86;
/** Characters of what is said beside the hits. */
const NOTE_LIMIT = 240;

/** From roomy to bare: how much of a summary and how many parameters each line keeps. */
const levels = [
  { summary: 160, parameters: 8 },
  { summary: 110, parameters: 6 },
  { summary: 80, parameters: 4 },
  { summary: 60, parameters: 3 },
  { summary: 40, parameters: 2 },
  { summary: 24, parameters: 1 },
  { summary: 0, parameters: 0 },
] as const;

/** What a model reads of an action it may choose: enough to choose by, and to call the simple ones. */
export interface ActionCandidate {
  readonly name: string;
  readonly summary: string;
  readonly signature: string;
  readonly score: number;
  /** Why it cannot be used right away; absent when it can. */
  readonly state?: Exclude<Readiness, "ready">;
}

/**
 * Hits as lines that fit the budget together with what is said `after` them: first the summaries and signatures get
 * shorter, and only when that is not enough the last hits are left out and counted.
 */
export function formatHits(
  hits: readonly Hit[],
  after: readonly string[] = [],
): { readonly items: readonly ActionCandidate[]; readonly text: string } {
  const budget = Math.max(hits.length, DEFAULT_HITS) * TOKENS_PER_HIT * ESTIMATE_FACTOR;
  const states = hits.map(({ action }) => readState(action));
  const said = after.map((each) => clip(toOneLine(each), NOTE_LIMIT));
  let items: readonly ActionCandidate[] = [];
  let text = "";
  for (const level of levels) {
    items = hits.map((hit, at) => ({ ...toCandidate(hit, level), ...states[at] }));
    text = [...items.map(formatLine), ...said].join("\n");
    if (estimateTokens(text) <= budget) return { items, text };
  }
  while (items.length > 1 && estimateTokens(text) > budget) {
    items = items.slice(0, -1);
    text = [...items.map(formatLine), `+${hits.length - items.length} more`, ...said].join("\n");
  }
  return { items, text };
}

/** What keeps an action from being used right away. A provider that cannot say so is not ready. */
export function readState(action: Action): Pick<ActionCandidate, "state"> {
  let said: unknown;
  try {
    said = action.readiness === undefined ? "ready" : action.readiness();
  } catch {
    said = undefined;
  }
  const state = readinesses.find((each) => each === said) ?? "unavailable";
  return state === "ready" ? {} : { state };
}

function toCandidate({ action, score }: Hit, level: (typeof levels)[number]): ActionCandidate {
  return {
    name: action.name,
    summary: level.summary === 0 ? "" : clip(toOneLine(summarizeAction(action)), level.summary),
    signature: formatSignature(action, level.parameters),
    score: Math.round(score * 100) / 100,
  };
}

function formatLine({ name, signature, summary, score, state }: ActionCandidate): string {
  const facts = state === undefined ? `${score}` : `${score}, ${state.replaceAll("_", " ")}`;
  return `${name}${signature} [${facts}]${summary === "" ? "" : ` ${summary}`}`;
}

const TOKEN_PIECES = /\p{Lu}?[a-z]+|\p{Lu}+|\d{1,3}|\s+|[!-/:-@[-`{-~]+|./gsu;

/** About how many o200k tokens a text has, rather too many, without the table that counting them takes (70 MB). */
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
  // Letters of common scripts have tokens of their own; what is beyond is spelt out in bytes.
  return COMMON_SCRIPTS.test(piece) ? 1 : Buffer.byteLength(piece);
}

const COMMON_SCRIPTS =
  /[\p{sc=Latn}\p{sc=Cyrl}\p{sc=Grek}\p{sc=Arab}\p{sc=Hebr}\p{sc=Deva}\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\p{sc=Thai}\p{P}\p{M}ー]/u;
