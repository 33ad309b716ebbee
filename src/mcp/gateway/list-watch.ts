import type { JsonObject } from "../../core/json.ts";

/** Remembers which tools a client was shown, to tell it when they are others now, and only then. */
export interface ListWatch {
  listed(tools: readonly JsonObject[]): void;
  /** The list can be another one. Looks soon, once for all that happens meanwhile. */
  look(): void;
  close(): void;
}

const SETTLE_MS = 20;

export function createListWatch(
  current: () => Promise<readonly JsonObject[]>,
  changed: () => void,
  onProblem: (thrown: unknown) => void,
): ListWatch {
  let shown: string | undefined;
  let timer: NodeJS.Timeout | undefined;

  async function compare(): Promise<void> {
    const now = JSON.stringify(await current());
    if (shown === undefined || now === shown) return;
    // Until it asks again, the client has been told; telling it once is enough.
    shown = undefined;
    changed();
  }

  return {
    listed(tools) {
      shown = JSON.stringify(tools);
    },
    look() {
      if (shown === undefined || timer !== undefined) return;
      timer = setTimeout(() => {
        timer = undefined;
        compare().catch(onProblem);
      }, SETTLE_MS);
      timer.unref();
    },
    close() {
      clearTimeout(timer);
      shown = undefined;
    },
  };
}
