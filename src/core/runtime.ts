const DURATION_UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `500ms`, `30s`, `15m`, `24h`, `7d`. */
export type Duration = `${number}${keyof typeof DURATION_UNITS}`;
export const DURATION_PATTERN = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** Milliseconds, rounded; undefined for another form and for zero. */
export function parseDuration(text: string): number | undefined {
  const [, amount, unit] = DURATION_PATTERN.exec(text) ?? [];
  const ms = Math.round(Number(amount) * DURATION_UNITS[unit as keyof typeof DURATION_UNITS]);
  return Number.isSafeInteger(ms) && ms > 0 ? ms : undefined;
}

/** Time and random ids, injected so that tests can fix them. */
export interface Runtime {
  readonly now: () => Date;
  /** A monotonic clock in milliseconds, for durations. */
  readonly elapsed: () => number;
  readonly newId: () => string;
}

export type ProcessInfo = { readonly pid: number; readonly host: string; isAlive(pid: number): boolean };
