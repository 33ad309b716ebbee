import type { FloodLimit } from "./flow-control.ts";
import type { KillTimeouts } from "./server-processes.ts";

export interface StdioLimits extends KillTimeouts {
  /** A longer line on stdout is dropped. */
  readonly lineBytes: number;
  /** `send` fails while the server has more than this to read. */
  readonly unreadBytes: number;
  /** How long a server may take to exit after its stdin was closed. */
  readonly closeMs: number;
  readonly flood: FloodLimit;
}
