import { type Action, type Readiness, summaryOf } from "../core/action.ts";
import { clip } from "../core/json.ts";
import type { Hit } from "../search/hit.ts";
import { signatureOf } from "./signature.ts";

/** What an answer of eight hits may cost; more hits may cost more in proportion. */
const TOKENS_A_HIT = 250 / 8;
const HITS = 8;
/** The estimate is up to 15 % below what o200k counts, over 25,000 real tools taken eight at a time. */
const SAFE = 0.86;

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
  let items: readonly Candidate[] = [];
  let text = "";
  for (const level of levels) {
    items = hits.map((hit) => candidate(hit, level));
    text = [...items.map(line), ...after].join("\n");
    if (roughTokens(text) <= budget) return { items, text };
  }
  while (items.length > 1 && roughTokens(text) > budget) {
    items = items.slice(0, -1);
    text = [...items.map(line), `+${hits.length - items.length} more`, ...after].join("\n");
  }
  return { items, text };
}

export function stateOf(action: Action): Pick<Candidate, "state"> {
  let state: Readiness;
  try {
    state = action.readiness?.() ?? "ready";
  } catch {
    state = "unavailable";
  }
  return state === "ready" ? {} : { state };
}

function candidate({ action, score }: Hit, level: (typeof levels)[number]): Candidate {
  return {
    name: action.name,
    summary: level.summary === 0 ? "" : clip(oneLine(summaryOf(action)), level.summary),
    signature: signatureOf(action, level.parameters),
    score: Math.round(score * 100) / 100,
    ...stateOf(action),
  };
}

function line({ name, signature, summary, score, state }: Candidate): string {
  const facts = state === undefined ? `${score}` : `${score}, ${state.replaceAll("_", " ")}`;
  return `${name}${signature} [${facts}]${summary === "" ? "" : ` ${summary}`}`;
}

/** A description comes from outside: it must not look like a line of the answer's own. */
function oneLine(text: string): string {
  return text.replace(/\s+/gu, " ");
}

const PIECES = /\p{Lu}?[a-z]+|\p{Lu}+|\d{1,3}|\s+|[^\p{L}\p{N}\s]+|./gsu;

/** About how many o200k tokens a text has, without the table that counting them takes (70 MB). */
export function roughTokens(text: string): number {
  let tokens = 0;
  for (const [piece] of text.matchAll(PIECES)) {
    if (piece === " ") continue;
    if (/^[A-Za-z]/.test(piece)) tokens += piece.length <= 8 ? 1 : Math.ceil(piece.length / 6);
    else if (/^[!-/:-@[-`{-~]/.test(piece)) tokens += Math.ceil(piece.length / 2);
    else tokens += 1;
  }
  return tokens;
}
