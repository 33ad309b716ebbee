import type { TextOut } from "./io.ts";

const QUIET_MS = 1000;

/** A line that says how long something has been running, on a terminal only. Call the answer to wipe it away. */
export function showProgress(stderr: TextOut, what: string): () => void {
  if (!stderr.isTTY) return () => {};
  const started = performance.now();
  let isShown = false;
  const timer = setInterval(() => {
    isShown = true;
    const seconds = Math.round((performance.now() - started) / 1000);
    stderr.write(`\r\u001B[K${what} has been running for ${seconds} s. Ctrl-C cancels it.`);
  }, QUIET_MS);
  return () => {
    clearInterval(timer);
    if (isShown) stderr.write("\r\u001B[K");
  };
}

/** A line that says how many of how many are done, on a terminal only. */
export function showCount(stderr: TextOut, what: string) {
  let isShown = false;
  return {
    at({ done, total }: { readonly done: number; readonly total: number }): void {
      if (!stderr.isTTY) return;
      isShown = true;
      stderr.write(`\r\u001B[K${done} of ${total} ${what}. Ctrl-C stops it.`);
    },
    end(): void {
      if (isShown) stderr.write("\r\u001B[K");
    },
  };
}
