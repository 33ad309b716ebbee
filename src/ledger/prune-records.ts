import { SYSTEM_SESSION } from "../core/events.ts";
import { isRecord } from "../core/json.ts";
import type { ChainHead, PrunedChain, StoredEvent } from "./event-store.ts";

/** What `ledger.pruned` events say was removed. */
export class PruneRecords {
  readonly #latest = new Map<string, PrunedChain>();
  readonly #all = new Set<string>();
  readonly #whole = new Set<string>();

  add({ session, type, data }: StoredEvent): void {
    if (session !== SYSTEM_SESSION || type !== "ledger.pruned" || !isRecord(data) || !Array.isArray(data.chains))
      return;
    for (const chain of data.chains.filter(isPrunedChain)) {
      this.#latest.set(chain.session, chain);
      this.#all.add(toKey(chain));
      if (chain.whole) this.#whole.add(toKey(chain));
    }
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
