import { setTimeout as pause } from "node:timers/promises";
import type { Client, SubscriptionFilter } from "@modelcontextprotocol/client";
import { isRecord, type JsonObject } from "../../core/json.ts";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 5 * 60 * 1000;
/** After a stream that lasted this long, the next wait is short again. */
const LASTING_MS = 60 * 1000;
const ACKNOWLEDGE_MS = 30 * 1000;

/** Starts or stops watching a resource. */
export type WatchResource = ReturnType<typeof openChangeStream>;

/**
 * Opens the stream on which a modern server announces changes, while there is something to watch. Some hosts cut long
 * streams, so it is reopened with growing waits. Changes in between are missed, so that counts as a change of the lists.
 */
export function openChangeStream(client: Client, offered: JsonObject, closed: AbortSignal, onListsChange: () => void) {
  const lists = toListFilter(offered);
  const watched = new Set<string>();
  let reopen = new AbortController();
  let isOpen = false;

  const buildFilter = (): SubscriptionFilter => ({
    ...lists,
    ...(watched.size > 0 ? { resourceSubscriptions: [...watched] } : {}),
  });

  async function holdOpen(): Promise<void> {
    let wait = FIRST_WAIT_MS;
    let missed = false;
    while (!closed.aborted && Object.keys(buildFilter()).length > 0) {
      const round = AbortSignal.any([closed, reopen.signal]);
      const opened = performance.now();
      try {
        const subscription = await client.listen(buildFilter(), { timeout: ACKNOWLEDGE_MS, signal: round });
        if (missed && Object.keys(lists).length > 0) onListsChange();
        missed = false;
        await subscription.closed;
      } catch {
        // Refused or broken off: try again later.
      }
      if (reopen.signal.aborted) {
        reopen = new AbortController();
        continue;
      }
      missed = true;
      if (performance.now() - opened > LASTING_MS) wait = FIRST_WAIT_MS;
      await pause(wait, undefined, { signal: round, ref: false }).catch(() => undefined);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    }
  }

  function open(): void {
    if (isOpen) return;
    isOpen = true;
    void holdOpen().finally(() => {
      isOpen = false;
    });
  }

  open();
  return (uri: string, isWatched: boolean): void => {
    if (isWatched === watched.has(uri)) return;
    if (isWatched) watched.add(uri);
    else watched.delete(uri);
    if (isOpen) reopen.abort();
    else open();
  };
}

function toListFilter(capabilities: JsonObject): SubscriptionFilter {
  const lists = ["tools", "prompts", "resources"].filter((list) => {
    const capability = capabilities[list];
    return isRecord(capability) && capability.listChanged === true;
  });
  return Object.fromEntries(lists.map((list) => [`${list}ListChanged`, true]));
}
