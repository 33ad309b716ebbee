import type { Writable } from "node:stream";

/** What is written in one turn of the event loop goes out at once: each write may have to wake the reader up. */
export function corkUntilNextTurn(stream: Writable): void {
  if (stream.writableCorked > 0) return;
  stream.cork();
  setImmediate(() => stream.uncork());
}
