import { hash } from "node:crypto";
import { canonicalJson, omitUndefined } from "../core/json.ts";
import type { ChainHead, EventStore, StoredEvent } from "./event-store.ts";

/** The `prev` of a session's first line. */
export const CHAIN_START = "0".repeat(64);
export type ChainedLine = Omit<StoredEvent, "id" | "hash">;

/** The hash of a line, which binds it to all lines before it. */
export const hashLine = (line: ChainedLine): string => hashLineText(line, canonicalJson(line.data));

/** `hashLine` with the canonical JSON of the data. Hashes a JSON array, so that no two lines give the same text. */
export function hashLineText(line: Omit<ChainedLine, "data">, data: string): string {
  const { prev, session, seq, type, at, actor, tenant, turn, user, person, callId, action } = line;
  const text = JSON.stringify([prev, session, seq, type, at, actor, tenant, turn, user, person, callId, action, data]);
  return hash("sha256", text, "hex");
}

/**
 * - `changed`: the line is not the one that was written there
 * - `missing`: lines were removed from the start or the middle, or all of them
 * - `reordered`: the line is not at its place
 * - `cut tail`: the last lines were removed
 * - `unknown`: the store has lines of the session but no head
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
  readonly broken: readonly BrokenChain[];
}

export interface VerifyOptions {
  readonly session?: string;
  /** Heads saved earlier outside the store. Without them, a rewrite of the whole store cannot be detected. */
  readonly against?: readonly ChainHead[];
}

const PAGE = 500;
const BROKEN_LIMIT = 20;

/** Checks every chain while others write: heads read before must be reached, heads read after must not fall behind. */
export async function verifyChains(store: EventStore, { session, against = [] }: VerifyOptions = {}) {
  const chains = new Map<string, ChainCheck>();
  const getChain = (name: string): ChainCheck => {
    const chain = chains.get(name) ?? new ChainCheck(name);
    chains.set(name, chain);
    return chain;
  };
  for (const head of [...(await store.heads()), ...against]) {
    if (session === undefined || head.session === session) getChain(head.session).expected.push(head);
  }
  let events = 0;
  for await (const event of readPages(store, session)) {
    events++;
    getChain(event.session).check(event);
  }
  const heads = new Map((await store.heads()).map((head) => [head.session, head]));
  const broken = [...chains].flatMap(([name, chain]) => chain.finish(heads.get(name)));
  return { sessions: chains.size, events, broken };
}

async function* readPages(store: EventStore, session: string | undefined): AsyncGenerator<StoredEvent> {
  for (let after = 0; ; ) {
    const page = await store.read(omitUndefined({ after, limit: PAGE, session }));
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    after = last.id;
  }
}

class ChainCheck {
  /** Heads that the chain must pass through. */
  readonly expected: ChainHead[] = [];
  readonly #session: string;
  readonly #broken: BrokenChain[] = [];
  /** Skipped places. A line that turns up later is taken out. */
  readonly #gaps: { readonly from: number; readonly to: number }[] = [];
  #seq = 0;
  #hash = CHAIN_START;

  constructor(session: string) {
    this.#session = session;
  }

  check(event: StoredEvent): void {
    const place = this.#seq + 1;
    let { seq } = event;
    const genuine = hashLine(event) === event.hash;
    if (genuine && seq < place) {
      this.#report(seq, "reordered", `line ${seq} stands behind line ${this.#seq}`);
      this.#closeGap(seq);
      return;
    }
    if (genuine && seq === place && event.prev !== this.#hash)
      this.#reportChanged(Math.max(this.#seq, 1), "was replaced: the next line was written after another one");
    if (!genuine && seq !== place && hashLine({ ...event, seq: place }) === event.hash) {
      this.#report(seq, "reordered", `line ${seq} was written as line ${place}`);
      seq = place;
    } else if (!genuine) {
      this.#reportChanged(seq, "does not match its hash");
      if (!(seq >= place)) return;
    }
    if (seq > place && this.#gaps.length < BROKEN_LIMIT) this.#gaps.push({ from: place, to: seq - 1 });
    if (this.expected.some((head) => head.seq === seq && head.hash !== event.hash))
      this.#reportChanged(seq, "is not the line of the saved chain head");
    this.#seq = seq;
    this.#hash = event.hash;
  }

  finish(head: ChainHead | undefined): readonly BrokenChain[] {
    const seq = this.#seq;
    for (const { from, to } of this.#gaps) this.#report(from, "missing", `${formatLines(from, to)} missing`);
    const end = Math.max(0, ...this.expected.map((expected) => expected.seq));
    if (seq === 0) {
      this.#report(1, "missing", `${formatLines(1, end)} missing: nothing is left of the session`);
      return this.#broken;
    }
    if (end > seq) this.#report(seq + 1, "cut tail", `${formatLines(seq + 1, end)} missing at the end`);
    if (head === undefined) this.#report(seq, "unknown", "the store has lines of this session but no chain head");
    else if (head.seq < seq) this.#reportChanged(seq, `comes after the chain head, which is line ${head.seq}`);
    return this.#broken;
  }

  #closeGap(seq: number): void {
    const at = this.#gaps.findIndex(({ from, to }) => from <= seq && seq <= to);
    const gap = this.#gaps[at];
    if (gap === undefined) return;
    const before = { from: gap.from, to: seq - 1 };
    const after = { from: seq + 1, to: gap.to };
    this.#gaps.splice(at, 1, ...[before, after].filter(({ from, to }) => from <= to));
  }

  #reportChanged(seq: number, how: string): void {
    this.#report(seq, "changed", `line ${seq} ${how}`);
  }

  #report(seq: number, problem: ChainProblem, message: string): void {
    const isKnown = this.#broken.some((known) => known.seq === seq && known.problem === problem);
    if (isKnown || this.#broken.length >= BROKEN_LIMIT) return;
    this.#broken.push({ session: this.#session, seq, problem, message });
  }
}

const formatLines = (from: number, to: number) => (from === to ? `line ${from} is` : `lines ${from} to ${to} are`);
