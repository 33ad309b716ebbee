import type { Readable } from "node:stream";

/** So many lines of one stream are handled before timers and other streams have their turn. */
export const LINES_PER_SLICE = 64;

const NEWLINE = 0x0a;

/** Where the piece of a chunk ends that is handled in one turn of the event loop. */
export function findSliceEnd(chunk: Uint8Array, from: number): number {
  let end = from;
  for (let lines = 0; lines < LINES_PER_SLICE; lines++) {
    const at = chunk.indexOf(NEWLINE, end);
    if (at === -1) return chunk.length;
    end = at + 1;
  }
  return end;
}

export interface SliceReader {
  /** Hands over what was read and not handled yet, and reads no more. */
  stop(): void;
}

/**
 * Reads a stream a few lines a turn. While lines wait the stream is paused, so that a process that writes faster than
 * we handle it has to wait.
 */
export function readInSlices(stream: Readable, push: (piece: Buffer) => void): SliceReader {
  let rest: Buffer | undefined;
  let stopped = false;

  function onData(chunk: Buffer): void {
    stream.pause();
    rest = chunk;
    handle();
  }

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

  stream.on("data", onData);
  return {
    stop() {
      if (stopped) return;
      stopped = true;
      stream.off("data", onData);
      const left = rest;
      rest = undefined;
      if (left !== undefined) push(left);
    },
  };
}

/** How many messages a server may send at once, and how many more of them each second. */
export interface FloodLimit {
  readonly burst: number;
  readonly perSecond: number;
}

export const FLOOD_LIMIT: FloodLimit = { burst: 50_000, perSecond: 2_000 };

/** Counts what a server sends. A busy machine reads more slowly, so that load alone never makes a flood. */
export function createFloodGuard({ burst, perSecond }: FloodLimit = FLOOD_LIMIT): {
  isFlooded(messages?: number): boolean;
} {
  let left = burst;
  let at = performance.now();
  return {
    isFlooded(messages = 1) {
      const now = performance.now();
      left = Math.min(burst, left + ((now - at) / 1000) * perSecond) - messages;
      at = now;
      return left < 0;
    },
  };
}

export function formatFloodReason({ burst, perSecond }: FloodLimit): string {
  return `it sent a flood of messages, more than ${burst} at once and ${perSecond} a second, and was stopped`;
}
