import type { Readable } from "node:stream";

/** Lines of one stream that are handled in one turn of the event loop, before timers and other streams. */
const LINES_PER_SLICE = 64;

export function findSliceEnd(chunk: Uint8Array, from: number): number {
  let end = from;
  for (let lines = 0; lines < LINES_PER_SLICE; lines++) {
    const at = chunk.indexOf(0x0a, end);
    if (at === -1) return chunk.length;
    end = at + 1;
  }
  return end;
}

/** Reads a few lines per turn and pauses the stream meanwhile. Returns a function that stops and pushes the rest. */
export function readInSlices(stream: Readable, push: (piece: Buffer) => void): () => void {
  let rest: Buffer | undefined;
  let stopped = false;

  function handle(): void {
    if (stopped || rest === undefined) return;
    const end = findSliceEnd(rest, 0);
    const piece = rest.subarray(0, end);
    rest = end < rest.length ? rest.subarray(end) : undefined;
    push(piece);
    setImmediate(() => {
      if (rest !== undefined) handle();
      else if (!stopped) stream.resume();
    });
  }

  const onData = (chunk: Buffer): void => {
    stream.pause();
    rest = chunk;
    handle();
  };
  stream.on("data", onData);
  return () => {
    if (stopped) return;
    stopped = true;
    stream.off("data", onData);
    if (rest !== undefined) push(rest);
    rest = undefined;
  };
}

export type FloodLimit = { readonly burst: number; readonly perSecond: number };
export const FLOOD_LIMIT: FloodLimit = { burst: 50_000, perSecond: 2_000 };

/** Load alone never makes a flood, and nor does a server that answers what it is asked. */
export function createFloodGuard({ burst, perSecond }: FloodLimit) {
  let left = burst;
  let at = performance.now();
  return {
    /** Allows the messages that answer a request. */
    expect(messages: number): void {
      left += messages;
    },
    /** Counts a message. Returns whether there were too many. */
    count(): boolean {
      const now = performance.now();
      left = Math.min(burst, left + ((now - at) / 1000) * perSecond) - 1;
      at = now;
      return left < 0;
    },
  };
}

export const formatFloodReason = ({ burst, perSecond }: FloodLimit): string =>
  `it was stopped for a flood of messages: more than ${burst} at once and ${perSecond} a second`;
