const DURATION_UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** A time as people write it: `500ms`, `30s`, `15m`, `24h`, `7d`. */
export type Duration = `${number}${keyof typeof DURATION_UNITS}`;

export const DURATION_PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** Its milliseconds, rounded; undefined for what is no time, or none at all. */
export function parseDuration(text: string): number | undefined {
  const [, amount, unit] = DURATION_PATTERN.exec(text) ?? [];
  const ms = Math.round(Number(amount) * DURATION_UNITS[unit as keyof typeof DURATION_UNITS]);
  return Number.isSafeInteger(ms) && ms > 0 ? ms : undefined;
}

/** Time and chance, given from outside so that tests can hold them still. */
export interface Runtime {
  readonly now: () => Date;
  /** Milliseconds from some fixed point, for durations: never goes back. */
  readonly elapsed: () => number;
  readonly newId: () => string;
}

/** This process, as others can know it, and how to find out whether another on this machine is still there. */
export interface ProcessInfo {
  readonly pid: number;
  readonly host: string;
  isAlive(pid: number): boolean;
}
