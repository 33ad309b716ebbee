import { z } from "zod";
import { type Action, type Readiness, readinesses, summarizeAction } from "../core/action.ts";
import { toOneLine } from "../core/display-text.ts";
import { clip, omitUndefined } from "../core/json.ts";
import type { Hit } from "../search/hits.ts";
import { type CatalogSearchResult, DEFAULT_HITS } from "../search/search.ts";
import { formatSignature } from "./signature.ts";

const HIGHEST_LIMIT = 20;
/** No `maximum`, which for zod is the largest integer: a higher limit is accepted and lowered. */
export const searchLimitShape = z
  .int()
  .min(1)
  .meta({ description: `Default ${DEFAULT_HITS}, at most ${HIGHEST_LIMIT}`, maximum: undefined })
  .optional();
export const clampLimit = (limit: number | undefined) =>
  limit === undefined ? undefined : Math.min(limit, HIGHEST_LIMIT);

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

/** The state with its reason, for an answer about one action. */
export function readStateWithReason(
  action: Action,
): Pick<ActionCandidate, "state"> & { readonly state_reason?: string } {
  const { state } = readState(action);
  if (state === undefined) return {};
  let reason: string | undefined;
  try {
    reason = action.readinessReason?.();
  } catch {
    // The state alone is true as well.
  }
  return omitUndefined({ state, state_reason: reason });
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
