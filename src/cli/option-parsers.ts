import { InvalidArgumentError } from "commander";

/** For options that count something. */
export function createWholeNumberParser(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least || value > most)
      throw new InvalidArgumentError(
        `Give a whole number ${most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`}.`,
      );
    return value;
  };
}

const UNITS = { ms: 1, s: 1000, m: 60_000 } as const;

/** Longer timers than this fire at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** Milliseconds of `500ms`, `30s`, `2m`, or a number of seconds. */
export function parseTimeoutOption(text: string): number {
  const [, amount, unit = "s"] = /^(\d+(?:\.\d+)?)(ms|s|m)?$/.exec(text) ?? [];
  const ms = Math.round(Number(amount) * UNITS[unit as keyof typeof UNITS]);
  if (!(ms > 0 && ms <= LONGEST_MS)) throw new InvalidArgumentError("Give a time like 500ms, 30s or 2m.");
  return ms;
}

/** For options that may be given more than once. */
export function collectOption(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** The last part of a command's help. */
export function formatExamples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`;
}
