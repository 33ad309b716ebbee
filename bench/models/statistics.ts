import { chance } from "../search/sample.ts";

/** A figure with its interval of 95 % confidence. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

const Z = 1.96;

/** The share of successes, with Wilson's interval, which is right for shares near 0 and 1 too. */
export function estimateShare(successes: number, count: number): Estimate {
  const value = successes / count;
  const scale = 1 + Z ** 2 / count;
  const middle = (value + Z ** 2 / (2 * count)) / scale;
  const reach = (Z / scale) * Math.sqrt((value * (1 - value)) / count + Z ** 2 / (4 * count ** 2));
  return { value, low: Math.max(0, middle - reach), high: Math.min(1, middle + reach) };
}

const RESAMPLES = 2000;

/** Any figure of a sample of tasks, with an interval from resampling the tasks. `figure` may answer NaN for a sample. */
export function estimateByResampling(count: number, figure: (indexes: readonly number[]) => number): Estimate {
  const next = chance(count);
  const all = Array.from({ length: count }, (_, index) => index);
  const figures = Array.from({ length: RESAMPLES }, () => figure(all.map(() => Math.floor(next() * count))))
    .filter((value) => Number.isFinite(value))
    .sort((a, b) => a - b);
  const at = (share: number): number => figures[Math.floor(share * (figures.length - 1))] ?? Number.NaN;
  return { value: figure(all), low: at(0.025), high: at(0.975) };
}

export const average = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

export const estimateMean = (values: readonly number[]): Estimate =>
  estimateByResampling(values.length, (indexes) => average(indexes.map((index) => values[index] ?? 0)));
