import type { JsonObject } from "../../core/json.ts";

/** The lists that MCP has. */
export type ListName = "tools" | "resources" | "templates" | "prompts";

/** Remembers what a client was shown, to tell it when that is different now, and only then. */
export interface ListWatch {
  listed(what: ListName, items: readonly JsonObject[]): void;
  /** The list can be another one. Looks soon, once for all that happens meanwhile. */
  look(what: ListName): void;
  close(): void;
}

interface WatchOptions {
  current(what: ListName): Promise<readonly JsonObject[]> | readonly JsonObject[];
  changed(what: ListName): void;
  onProblem(thrown: unknown): void;
}

const SETTLE_MS = 20;

export function createListWatch({ current, changed, onProblem }: WatchOptions): ListWatch {
  const shown = new Map<ListName, string>();
  const timers = new Map<ListName, NodeJS.Timeout>();

  async function compare(what: ListName): Promise<void> {
    const now = JSON.stringify(await current(what));
    const before = shown.get(what);
    if (before === undefined || now === before) return;
    // Until it asks again, the client has been told; telling it once is enough.
    shown.delete(what);
    changed(what);
  }

  return {
    listed(what, items) {
      shown.set(what, JSON.stringify(items));
    },
    look(what) {
      if (!shown.has(what) || timers.has(what)) return;
      const timer = setTimeout(() => {
        timers.delete(what);
        compare(what).catch(onProblem);
      }, SETTLE_MS);
      timers.set(what, timer.unref());
    },
    close() {
      for (const timer of timers.values()) clearTimeout(timer);
      timers.clear();
      shown.clear();
    },
  };
}
