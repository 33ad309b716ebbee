const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** A time as people write it: `500ms`, `30s`, `15m`, `24h`, `7d`. */
export type Duration = `${number}${keyof typeof UNITS}`;

export const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/** Its milliseconds, rounded; undefined for what is no time, or none at all. */
export function durationMs(text: string): number | undefined {
  const [, amount, unit] = DURATION.exec(text) ?? [];
  const ms = Math.round(Number(amount) * UNITS[unit as keyof typeof UNITS]);
  return Number.isSafeInteger(ms) && ms > 0 ? ms : undefined;
}
