import { SYSTEM_SESSION } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import { LruMap } from "../core/lru-map.ts";
import type { ChainHead, EventStore, PrunedChain, StoredEvent } from "./event-store.ts";
import { CHAIN_START, hashLine } from "./hash-chain.ts";
import { PruneRecords } from "./prune-records.ts";

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
  /** Events of the store. */
  readonly events: number;
  /** Events of the given archives. */
  readonly archived?: number;
  readonly broken: readonly BrokenChain[];
}

export interface VerifyOptions {
  readonly session?: string;
  /** Heads saved earlier outside the store. Without them, a rewrite of the whole store cannot be detected. */
  readonly against?: readonly ChainHead[];
  /** Removed events, oldest first. They are checked together with those of the store. */
  readonly archived?: AsyncIterable<StoredEvent>;
}

const PAGE = 500;
const BROKEN_LIMIT = 20;

/**
 * Checks every chain while others write: heads read before must be reached, heads read after must not fall behind. Lines
 * may be missing at the start of a chain if a `ledger.pruned` event in the system's chain says so.
 */
export async function verifyChains(store: EventStore, options: VerifyOptions = {}): Promise<ChainReport> {
  const { session, against = [], archived } = options;
  const records = new PruneRecords();
  const chains = new Map<string, ChainCheck>();
  const getChain = (name: string): ChainCheck => {
    const chain = chains.get(name) ?? new ChainCheck(name, records, archived !== undefined);
    chains.set(name, chain);
    return chain;
  };
  const isAsked = (name: string) => session === undefined || name === session;
  const counts = { events: 0, archived: 0 };
  function check(event: StoredEvent, from: "events" | "archived"): void {
    // The records of what was removed count only if their own chain is intact, so that is checked with any session.
    if (!isAsked(event.session) && event.session !== SYSTEM_SESSION) return;
    records.add(event);
    if (isAsked(event.session)) counts[from]++;
    getChain(event.session).check(event, from === "archived");
  }

  const before = await store.heads();
  for (const head of before) if (isAsked(head.session)) getChain(head.session).expected.push(head);
  for (const head of against) if (isAsked(head.session)) getChain(head.session).saved.push(head);
  for await (const event of archived ?? []) check(event, "archived");
  for await (const event of readPages(store, session)) check(event, "events");
  const needsRecords = archived !== undefined || (session !== undefined && chains.get(session)?.isCut());
  if (!isAsked(SYSTEM_SESSION) && needsRecords) {
    getChain(SYSTEM_SESSION).expected.push(...before.filter((head) => head.session === SYSTEM_SESSION));
    for await (const event of readPages(store, SYSTEM_SESSION)) check(event, "events");
  }
  const heads = new Map((await store.heads()).map((head) => [head.session, head]));
  const broken = [...chains].flatMap(([name, chain]) => chain.finish(heads.get(name)));
  const sessions = [...chains.keys()].filter(isAsked).length;
  const { events } = counts;
  return { sessions, events, ...(archived === undefined ? {} : { archived: counts.archived }), broken };
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

class ChainCheck {
  /** Heads that the chain must pass through: those of the store, and those that the user has saved. */
  readonly expected: ChainHead[] = [];
  readonly saved: ChainHead[] = [];
  readonly #session: string;
  readonly #records: PruneRecords;
  readonly #recent: LruMap<number, string> | undefined;
  readonly #broken: BrokenChain[] = [];
  /** Skipped places. A line that turns up later is taken out. */
  readonly #gaps: Gap[] = [];
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
