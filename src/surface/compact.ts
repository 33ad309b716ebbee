import { type Action, type Readiness, readinesses, summaryOf } from "../core/action.ts";
import { clip } from "../core/json.ts";
import { oneLine } from "../core/plain-text.ts";
import type { Hit } from "../search/hit.ts";
import { signatureOf } from "./signature.ts";

/** What an answer of eight hits may cost; more hits may cost more in proportion. */
const TOKENS_A_HIT = 250 / 8;
const HITS = 8;
/** The estimate is up to 15 % below what o200k counts, over 25,000 real tools taken eight at a time. */
const SAFE = 0.86;
/** Characters of what is said beside the hits. */
const SAID = 240;

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
export interface Candidate {
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
export function compactHits(
  hits: readonly Hit[],
  after: readonly string[] = [],
): { readonly items: readonly Candidate[]; readonly text: string } {
  const budget = Math.max(hits.length, HITS) * TOKENS_A_HIT * SAFE;
  const states = hits.map(({ action }) => stateOf(action));
  const said = after.map((each) => clip(oneLine(each), SAID));
  let items: readonly Candidate[] = [];
  let text = "";
  for (const level of levels) {
    items = hits.map((hit, at) => ({ ...candidate(hit, level), ...states[at] }));
    text = [...items.map(line), ...said].join("\n");
    if (roughTokens(text) <= budget) return { items, text };
  }
  while (items.length > 1 && roughTokens(text) > budget) {
    items = items.slice(0, -1);
    text = [...items.map(line), `+${hits.length - items.length} more`, ...said].join("\n");
  }
  return { items, text };
}

/** What keeps an action from being used right away. A provider that cannot say so is not ready. */
export function stateOf(action: Action): Pick<Candidate, "state"> {
  let said: unknown;
  try {
    said = action.readiness === undefined ? "ready" : action.readiness();
  } catch {
    said = undefined;
  }
  const state = readinesses.find((each) => each === said) ?? "unavailable";
  return state === "ready" ? {} : { state };
}

function candidate({ action, score }: Hit, level: (typeof levels)[number]): Candidate {
  return {
    name: action.name,
    summary: level.summary === 0 ? "" : clip(oneLine(summaryOf(action)), level.summary),
    signature: signatureOf(action, level.parameters),
    score: Math.round(score * 100) / 100,
  };
}

function line({ name, signature, summary, score, state }: Candidate): string {
  const facts = state === undefined ? `${score}` : `${score}, ${state.replaceAll("_", " ")}`;
  return `${name}${signature} [${facts}]${summary === "" ? "" : ` ${summary}`}`;
}

const PIECES = /\p{Lu}?[a-z]+|\p{Lu}+|\d{1,3}|\s+|[!-/:-@[-`{-~]+|./gsu;

/** About how many o200k tokens a text has, rather too many, without the table that counting them takes (70 MB). */
export function roughTokens(text: string): number {
  let tokens = 0;
  for (const [piece] of text.matchAll(PIECES)) tokens += piece === " " ? 0 : pieceTokens(piece);
  return tokens;
}

function pieceTokens(piece: string): number {
  if (/^[A-Za-z]/.test(piece)) {
    if (piece.length > 4 && !/[aeiouy]/i.test(piece)) return Math.ceil(piece.length / 2);
    return piece.length <= 8 ? 1 : Math.ceil(piece.length / 6);
  }
  if (/^[\d\s]/.test(piece)) return 1;
  if (piece.charCodeAt(0) < 128) return Math.ceil(piece.length / 2);
  // Letters of common scripts have tokens of their own; what is beyond is spelt out in bytes.
  return COMMON.test(piece) ? 1 : Buffer.byteLength(piece);
}

const COMMON =
  /[\p{sc=Latn}\p{sc=Cyrl}\p{sc=Grek}\p{sc=Arab}\p{sc=Hebr}\p{sc=Deva}\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hang}\p{sc=Thai}\p{P}\p{M}ー]/u;
