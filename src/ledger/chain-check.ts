import { SYSTEM_SESSION } from "../core/events.ts";
import { isRecord } from "../core/json.ts";
import { LruMap } from "../core/lru-map.ts";
import type { ChainHead, PrunedChain, StoredEvent } from "./event-store.ts";
import { CHAIN_START, hashLine } from "./hash-chain.ts";

/**
 * - `changed`: the line is not the one that was written there
 * - `missing`: lines were removed from the start or the middle, or all of them
 * - `reordered`: the line is not at its place
 * - `cut tail`: the last lines were removed
 * - `unknown`: the store has lines of the session but no head
 */
type ChainProblem = "changed" | "missing" | "reordered" | "cut tail" | "unknown";

export interface BrokenChain {
  readonly session: string;
  readonly seq: number;
  readonly problem: ChainProblem;
  readonly message: string;
}

const BROKEN_LIMIT = 20;

interface Gap {
  readonly from: number;
  readonly to: number;
  /** The hash of the last line before the gap. */
  readonly last: string;
  /** The `prev` of the first line after it. */
  readonly next: string;
  readonly isAfterArchived: boolean;
  readonly isBeforeArchived: boolean;
}

/** A killed process may have archived lines that it did not remove. It works on fewer than these at a time. */
const REPEATED_LINES = 4096;

/** Checks the lines of one chain in their order. `finish` returns what is wrong. */
export class ChainCheck {
  /** Heads that the chain must pass through: those of the store, and those that the user has saved. */
  readonly expected: ChainHead[] = [];
  readonly saved: ChainHead[] = [];
  readonly #session: string;
  readonly #records: PruneRecords;
  /** The hashes of the last lines by position, to recognize lines that are both in an archive and in the store. */
  readonly #recent: LruMap<number, string> | undefined;
  readonly #broken: BrokenChain[] = [];
  /** The missing lines so far. A line that turns up later is no longer missing. */
  readonly #gaps: Gap[] = [];
  /** The positions of lines that differ from a saved head. */
  readonly #unlikeSaved: number[] = [];
  #seq = 0;
  #hash = CHAIN_START;
  #isArchived = false;

  constructor(session: string, records: PruneRecords, hasArchive: boolean) {
    this.#session = session;
    this.#records = records;
    this.#recent = hasArchive ? new LruMap(REPEATED_LINES) : undefined;
  }

  check(event: StoredEvent, isArchived: boolean): void {
    if (event.seq === 1 && event.prev === CHAIN_START && this.#wasRemoved()) this.#restart();
    const place = this.#seq + 1;
    let { seq } = event;
    const genuine = hashLine(event) === event.hash;
    if (genuine && seq < place) {
      if (this.#recent?.get(seq) === event.hash) return;
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
    if (seq > place && this.#gaps.length < BROKEN_LIMIT)
      this.#gaps.push({
        from: place,
        to: seq - 1,
        last: this.#hash,
        next: event.prev,
        isAfterArchived: this.#isArchived,
        isBeforeArchived: isArchived,
      });
    const isUnlike = (head: ChainHead) => head.seq === seq && head.hash !== event.hash;
    if (this.expected.some(isUnlike)) this.#reportChanged(seq, "is not the line of the chain head");
    if (this.saved.some(isUnlike)) this.#unlikeSaved.push(seq);
    this.#seq = seq;
    this.#hash = event.hash;
    this.#isArchived = isArchived;
    this.#recent?.set(seq, event.hash);
  }

  /** Whether lines are missing that may have been removed by `ledger.prune`. */
  isCut(): boolean {
    return this.#gaps.length > 0 || this.#seq === 0;
  }

  finish(head: ChainHead | undefined): readonly BrokenChain[] {
    const seq = this.#seq;
    const pruned = this.#records.get(this.#session);
    for (const gap of this.#gaps.filter((each) => !this.#isRecorded(each)))
      this.#report(gap.from, "missing", `${formatLines(gap.from, gap.to)} missing`);
    this.#checkSaved(pruned);
    const isPruned = ({ seq: saved }: ChainHead) => pruned !== undefined && saved <= pruned.seq;
    const end = Math.max(
      0,
      ...[...this.expected, ...this.saved.filter((each) => !isPruned(each))].map((each) => each.seq),
    );
    if (seq === 0) {
      // A chain that has a head again was started anew after its removal.
      const from = pruned === undefined || (pruned.whole && head !== undefined) ? 1 : pruned.seq + 1;
      if (end >= from)
        this.#report(from, "missing", `${formatLines(from, end)} missing: nothing is left of the session`);
      return this.#broken;
    }
    if (this.#wasRemoved() || (head === undefined && this.#isArchivedEnd())) return this.#broken;
    if (end > seq) this.#report(seq + 1, "cut tail", `${formatLines(seq + 1, end)} missing at the end`);
    if (head === undefined) this.#report(seq, "unknown", this.#isArchived ? UNKNOWN_ARCHIVE : UNKNOWN_CHAIN);
    else if (head.seq < seq) this.#reportChanged(seq, `comes after the chain head, which is line ${head.seq}`);
    return this.#broken;
  }

  /** Whether recorded removals explain the gap. Between archived lines, both its ends must be ends of removals. */
  #isRecorded({ from, to, last, next, isAfterArchived, isBeforeArchived }: Gap): boolean {
    const session = this.#session;
    if (isAfterArchived && !this.#records.has({ session, seq: from - 1, hash: last })) return false;
    if (this.#records.has({ session, seq: to, hash: next })) return true;
    const pruned = this.#records.get(session);
    if (isAfterArchived || pruned === undefined || to >= pruned.seq) return false;
    return isBeforeArchived || pruned.whole !== true;
  }

  /** Whether all lines up to the last one were removed, which ended the chain. */
  #wasRemoved(): boolean {
    return this.#records.hasWhole({ session: this.#session, seq: this.#seq, hash: this.#hash });
  }

  /** Whether the last line is in an archive, and a removal ended with it. */
  #isArchivedEnd(): boolean {
    return this.#isArchived && this.#records.has({ session: this.#session, seq: this.#seq, hash: this.#hash });
  }

  #restart(): void {
    this.#seq = 0;
    this.#hash = CHAIN_START;
    this.#recent?.clear();
  }

  #checkSaved(pruned: PrunedChain | undefined): void {
    const wasRestarted = (seq: number) => pruned?.whole === true && seq <= pruned.seq;
    for (const seq of this.#unlikeSaved)
      if (!wasRestarted(seq)) this.#reportChanged(seq, "is not the line of the saved chain head");
    for (const { seq, hash } of this.saved)
      if (seq === pruned?.seq && hash !== pruned.hash)
        this.#reportChanged(seq, "is not the line of the saved chain head: another one was removed");
  }

  #closeGap(seq: number): void {
    const at = this.#gaps.findIndex(({ from, to }) => from <= seq && seq <= to);
    const gap = this.#gaps[at];
    if (gap === undefined) return;
    const before = { ...gap, to: seq - 1 };
    const after = { ...gap, from: seq + 1 };
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

const UNKNOWN_CHAIN = "the store has lines of this session but no chain head";
const UNKNOWN_ARCHIVE = "the ledger has no record that these lines were removed: give the later archives too";

const formatLines = (from: number, to: number) => (from === to ? `line ${from} is` : `lines ${from} to ${to} are`);

/** The removals that `ledger.pruned` events record. */
export class PruneRecords {
  readonly #latest = new Map<string, PrunedChain>();
  readonly #all = new Set<string>();
  readonly #whole = new Set<string>();

  add({ session, type, data }: StoredEvent): void {
    if (session !== SYSTEM_SESSION || type !== "ledger.pruned" || !isRecord(data) || !Array.isArray(data.chains))
      return;
    for (const chain of data.chains.filter(isPrunedChain)) this.addRemoval(chain);
  }

  addRemoval(chain: PrunedChain): void {
    this.#latest.set(chain.session, chain);
    this.#all.add(toKey(chain));
    if (chain.whole) this.#whole.add(toKey(chain));
  }

  get(session: string): PrunedChain | undefined {
    return this.#latest.get(session);
  }

  /** Whether a removal up to this line was recorded. */
  has(line: ChainHead): boolean {
    return this.#all.has(toKey(line));
  }

  /** Whether the whole chain was removed, and this was its last line. */
  hasWhole(line: ChainHead): boolean {
    return this.#whole.has(toKey(line));
  }
}

const toKey = ({ session, seq, hash }: ChainHead): string => JSON.stringify([session, seq, hash]);

function isPrunedChain(value: unknown): value is PrunedChain {
  return (
    isRecord(value) &&
    typeof value.session === "string" &&
    typeof value.hash === "string" &&
    Number.isSafeInteger(value.seq)
  );
}
