import type { Environment } from "../config/references.ts";

/** A stream that text is written to. */
export interface TextOut {
  write(text: string): void;
  readonly isTTY: boolean;
  /** The width of the terminal. Absent: nobody knows, or it is not one. */
  readonly columns?: number | undefined;
}

/** Everything the program has of its process. */
export interface Io {
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly stdout: TextOut;
  readonly stderr: TextOut;
  readonly cwd: string;
  readonly env: Environment;
  /** Aborted when the user interrupts. */
  readonly signal: AbortSignal;
  /** As in `20.19.0`. */
  readonly nodeVersion: string;
  /** As `process.platform` says. */
  readonly platform: string;
  /** The file of the Node that runs this. */
  readonly execPath: string;
}
