import { InvalidArgumentError } from "commander";

export function createWholeNumberParser(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= min && value <= max) return value;
    const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
    throw new InvalidArgumentError(`Give a whole number ${range}.`);
  };
}

const UNITS = { ms: 1, s: 1000, m: 60_000 } as const;

/** Node fires longer timers at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Converts `500ms`, `30s`, `2m` or a number of seconds to milliseconds. */
export function parseTimeoutOption(text: string): number {
  const [, amount, unit = "s"] = /^(\d+(?:\.\d+)?)(ms|s|m)?$/.exec(text) ?? [];
  const ms = Math.round(Number(amount) * UNITS[unit as keyof typeof UNITS]);
  if (!(ms > 0 && ms <= MAX_TIMER_MS)) throw new InvalidArgumentError("Give a time like 500ms, 30s or 2m.");
  return ms;
}

export function collectOption(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** The arguments of `addHelpText` for a list of examples. */
export function examples(...lines: readonly string[]): ["after", string] {
  return ["after", `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`];
}
