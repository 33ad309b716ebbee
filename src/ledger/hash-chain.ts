import { hash } from "node:crypto";
import { canonicalJson } from "../core/json.ts";
import type { ChainHead, EventStore, StoredEvent } from "./event-store.ts";

/** What a session's first line is chained to. */
export const CHAIN_START = "0".repeat(64);

/** Everything of a line that its hash vouches for. */
export type ChainedLine = Omit<StoredEvent, "id" | "hash">;

/**
 * The hash of a line, which binds it to all lines before it. A JSON array has one reading, so no two different lines
 * are hashed as the same text.
 */
export function hashLine(line: ChainedLine): string {
  return hashLineText(line, canonicalJson(line.data));
}

/** `lineHash` for who has the canonical text of the data at hand. */
export function hashLineText(line: Omit<ChainedLine, "data">, data: string): string {
  const { prev, session, seq, type, at, actor, tenant, turn, user, person, callId, action } = line;
  const text = JSON.stringify([prev, session, seq, type, at, actor, tenant, turn, user, person, callId, action, data]);
  return hash("sha256", text, "hex");
}

/**
 * - `changed`: the line is not the one that was written there
 * - `missing`: lines were removed from the beginning or the middle, or all of them
 * - `reordered`: the line does not stand where it was written
 * - `cut tail`: the last lines were removed
 * - `unknown`: lines of a session that the store has no chain for
 */
type ChainProblem = "changed" | "missing" | "reordered" | "cut tail" | "unknown";

interface BrokenChain {
  readonly session: string;
  readonly seq: number;
  readonly problem: ChainProblem;
  readonly message: string;
}

export interface ChainReport {
  readonly sessions: number;
  readonly events: number;
  /** Empty: every line is the one that was written. Of each session at most its first 20. */
  readonly broken: readonly BrokenChain[];
}

export interface VerifyOptions {
  /** Only this one. */
  readonly session?: string;
  /** Heads that were saved earlier, out of the store's reach: without them, whoever rewrites all of it is not found. */
  readonly against?: readonly ChainHead[];
}

const PAGE = 500;
const BROKEN_LIMIT = 20;

/**
 * Reads every line in the order of writing and checks that each session's chain is whole. Others may go on writing
 * meanwhile: the heads read before must be reached, the heads read after must not fall behind.
 */
export async function verifyChains(
  store: EventStore,
  { session, against = [] }: VerifyOptions = {},
): Promise<ChainReport> {
  const isWanted = ({ session: one }: ChainHead) => session === undefined || one === session;
  const expected = [...(await store.heads()), ...against].filter(isWanted);
  const chains = new Map<string, CheckedChain>();
  const getChain = (name: string) => {
    const chain = chains.get(name) ?? createChain(name);
    chains.set(name, chain);
    return chain;
  };
  for (const head of expected) getChain(head.session).expected.push(head);

  let events = 0;
  for await (const event of readPages(store, session)) {
    events++;
    checkEvent(getChain(event.session), event);
  }

  const heads = new Map((await store.heads()).map((head) => [head.session, head]));
  for (const chain of chains.values()) finishChain(chain, heads.get(chain.session));
  return { sessions: chains.size, events, broken: [...chains.values()].flatMap(({ broken }) => broken) };
}

async function* readPages(store: EventStore, session: string | undefined): AsyncGenerator<StoredEvent> {
  for (let after = 0; ; ) {
    const page = await store.read({ after, limit: PAGE, ...(session === undefined ? {} : { session }) });
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    after = last.id;
  }
}

/** How far a session's chain was followed. */
interface CheckedChain {
  readonly session: string;
  /** Heads that the chain must pass through. */
  readonly expected: ChainHead[];
  readonly gaps: ChainGap[];
  readonly broken: BrokenChain[];
  seq: number;
  hash: string;
}

/** Places that were jumped over, until the line of one turns up later. */
interface ChainGap {
  from: number;
  to: number;
}

function createChain(session: string): CheckedChain {
  return { session, expected: [], gaps: [], broken: [], seq: 0, hash: CHAIN_START };
}

function checkEvent(chain: CheckedChain, event: StoredEvent): void {
  const place = chain.seq + 1;
  let { seq } = event;
  const genuine = hashLine(event) === event.hash;
  if (genuine && seq < place) {
    reportOutOfPlace(chain, seq);
    return;
  }
  if (genuine && seq === place && event.prev !== chain.hash) {
    reportChanged(chain, Math.max(chain.seq, 1), "was replaced: the next one was written after another");
  }
  if (!genuine && seq !== place && hashLine({ ...event, seq: place }) === event.hash) {
    report(chain, seq, "reordered", `line ${seq} was written as line ${place}`);
    seq = place;
  } else if (!genuine) {
    reportChanged(chain, seq, "does not fit its hash");
    if (!(seq >= place)) return;
  }
  if (seq > place && chain.gaps.length < BROKEN_LIMIT) chain.gaps.push({ from: place, to: seq - 1 });
  for (const head of chain.expected) {
    if (head.seq === seq && head.hash !== event.hash)
      reportChanged(chain, seq, "is not the one that the chain's end was saved with");
  }
  chain.seq = seq;
  chain.hash = event.hash;
}

function reportOutOfPlace(chain: CheckedChain, seq: number): void {
  report(chain, seq, "reordered", `line ${seq} stands behind line ${chain.seq}`);
  const at = chain.gaps.findIndex(({ from, to }) => from <= seq && seq <= to);
  const gap = chain.gaps[at];
  if (gap === undefined) return;
  const rest = [
    { from: gap.from, to: seq - 1 },
    { from: seq + 1, to: gap.to },
  ];
  chain.gaps.splice(at, 1, ...rest.filter(({ from, to }) => from <= to));
}

function finishChain(chain: CheckedChain, head: ChainHead | undefined): void {
  for (const { from, to } of chain.gaps) report(chain, from, "missing", `${formatLines(from, to)} missing`);
  const end = Math.max(0, ...chain.expected.map(({ seq }) => seq));
  if (chain.seq === 0) report(chain, 1, "missing", `${formatLines(1, end)} missing: nothing is left of the session`);
  else if (end > chain.seq)
    report(chain, chain.seq + 1, "cut tail", `${formatLines(chain.seq + 1, end)} missing at the end`);
  if (chain.seq === 0) return;
  if (head === undefined)
    report(chain, chain.seq, "unknown", "the store has lines of this session and no end of its chain");
  else if (head.seq < chain.seq)
    reportChanged(chain, chain.seq, `is not the end of the chain, which is said to be line ${head.seq}`);
}

function formatLines(from: number, to: number): string {
  return from === to ? `line ${from} is` : `lines ${from} to ${to} are`;
}

function reportChanged(chain: CheckedChain, seq: number, how: string): void {
  report(chain, seq, "changed", `line ${seq} ${how}`);
}

function report(chain: CheckedChain, seq: number, problem: ChainProblem, message: string): void {
  const told = chain.broken.some((known) => known.seq === seq && known.problem === problem);
  if (!told && chain.broken.length < BROKEN_LIMIT) chain.broken.push({ session: chain.session, seq, problem, message });
}
