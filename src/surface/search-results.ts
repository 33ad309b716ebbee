import { z } from "zod";
import { type Action, type JsonSchema, type Readiness, readinesses, summarizeAction } from "../core/action.ts";
import { toOneLine } from "../core/display-text.ts";
import { clip, getOwn, isRecord, type Json, omitUndefined } from "../core/json.ts";
import type { Hit } from "../search/hits.ts";
import { type CatalogSearchResult, DEFAULT_HITS } from "../search/search.ts";

const UNION_LIMIT = 4;
const WORD_LIMIT = 24;
/** Longer than real names: a cut name cannot be passed. */
const NAME_LIMIT = 64;

/** The parameters on one line, all required ones first: `(path: string, limit?: integer, +2)`. The rest is counted. */
export function formatSignature(
  { inputSchema }: Pick<Action, "inputSchema">,
  optional = 8,
  required = Infinity,
): string {
  const properties = asObject(getOwn(inputSchema, "properties"));
  const listed = getOwn(inputSchema, "required");
  const needed = Array.isArray(listed) ? [...new Set(listed.filter((name) => typeof name === "string"))] : [];
  const others = Object.keys(properties).filter((name) => !needed.includes(name));
  const format = (mark: string) => (name: string) =>
    `${clip(toOneLine(name), NAME_LIMIT)}${mark}: ${formatType(getOwn(properties, name) ?? {})}`;
  const shown = [...needed.slice(0, required).map(format("")), ...others.slice(0, optional).map(format("?"))];
  return `(${joinCounted(shown, needed.length + others.length)})`;
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
export const searchLimitShape = z.int().min(1).describe(`Default ${DEFAULT_HITS}, at most ${HIGHEST_LIMIT}`).optional();
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

/** Optional parameters are shown while a line has this many tokens on average. */
const USUAL_TOKENS = 50;
const MOST_TOKENS = 80;
/** The estimate is up to 15 % too low, measured over 25,000 real tools in groups of five. */
const ESTIMATE_FACTOR = 0.86;
const SUMMARY_LIMIT = 100;
/** How many optional parameters to try to show, and required ones of a single hit with too many. */
const OPTIONAL_SHOWN = [8, 4, 2, 1];
const REQUIRED_SHOWN = 20;
/** Characters of each note beside the hits. */
const NOTE_LIMIT = 240;

/** An action as a search result: enough to choose by, and to call a simple one. */
export interface ActionCandidate {
  readonly name: string;
  readonly summary: string;
  readonly signature: string;
  readonly score: number;
  /** Why it cannot be used right away. */
  readonly state?: Exclude<Readiness, "ready">;
}

/**
 * Each hit with its first sentence and all required arguments. Leaves out and counts the last hits to fit a budget of 400
 * tokens, or more if more hits were asked for. Only a single hit may lose arguments.
 */
export function formatHits(hits: readonly Hit[], after: readonly string[] = []) {
  const lines = Math.max(hits.length, DEFAULT_HITS);
  const [usual, most] = [lines * USUAL_TOKENS * ESTIMATE_FACTOR, lines * MOST_TOKENS * ESTIMATE_FACTOR];
  const states = hits.map(({ action }) => readState(action));
  const notes = after.map((note) => clip(toOneLine(note), NOTE_LIMIT));
  const format = (count: number, optional: number, required?: number) => {
    const items = hits
      .slice(0, count)
      .map((hit, at): ActionCandidate => ({ ...toCandidate(hit, optional, required), ...states[at] }));
    const more = count < hits.length ? [`+${hits.length - count} more`] : [];
    const text = [...items.map(formatLine), ...more, ...notes].join("\n");
    return { items, text, tokens: estimateTokens(text) };
  };
  for (const optional of OPTIONAL_SHOWN) {
    const full = format(hits.length, optional);
    if (full.tokens <= usual) return full;
  }
  let answer = format(hits.length, 0);
  for (let count = hits.length - 1; count > 0 && answer.tokens > most; count--) answer = format(count, 0);
  for (let required = REQUIRED_SHOWN; required >= 0 && answer.tokens > most; required--)
    answer = format(1, 0, required);
  return answer;
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

const toCandidate = ({ action, score }: Hit, optional: number, required?: number): ActionCandidate => ({
  name: action.name,
  summary: clipAtWord(toOneLine(summarizeAction(action)), SUMMARY_LIMIT),
  signature: formatSignature(action, optional, required),
  score: Math.round(score * 100) / 100,
});

/** Cuts inside a word only if there is no other place. */
function clipAtWord(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const cut = text.slice(0, limit + 1).lastIndexOf(" ");
  return cut > limit / 2 ? `${text.slice(0, cut)}…` : clip(text, limit);
}

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
    if (piece.length > 4 && UNUSUAL.test(piece)) return Math.ceil(piece.length * 0.8);
    return piece.length <= 8 ? 1 : Math.ceil(piece.length / 6);
  }
  if (/^[\d\s]/.test(piece)) return 1;
  if (piece.charCodeAt(0) < 128) return Math.ceil(piece.length / 2);
  // Letters of common scripts are one token; others take one per byte.
  return COMMON_SCRIPTS.test(piece) ? 1 : Buffer.byteLength(piece);
}

/** Letters that are no English word, such as those of a random id: about a token each. */
const UNUSUAL = /^[^aeiouy]+$|q(?![ul])|[jvz][bcdfghjkmnpqrtwx]|x[bdfgjkmnqrvwxz]|[b-df-hj-np-tv-xz]{5}/i;
const COMMON_SCRIPTS =
  /[\p{sc=Latn}\p{sc=Cyrl}\p{sc=Grek}\p{sc=Arab}\p{sc=Hebr}\p{sc=Deva}\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\p{sc=Thai}\p{P}\p{M}ー]/u;
