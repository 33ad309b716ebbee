import { SYSTEM_SESSION } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import { type BrokenChain, ChainCheck, PruneRecords } from "./chain-check.ts";
import type { ChainHead, EventStore, StoredEvent } from "./event-store.ts";

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
    // A record of a removal counts only if the system's chain is intact, so that chain is checked with any session.
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
