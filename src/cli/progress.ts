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
