import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** One implementation to measure. */
export interface Contender {
  readonly name: string;
  /** How often it runs in a round. */
  readonly calls: number;
  /** Not timed: restores the state that `run` starts from, because other contenders may have changed it. */
  before?(): void;
  run(calls: number): Promise<void> | void;
  /** The surrounding work alone. It is timed in every round next to `run`, and subtracted. */
  without?(calls: number): Promise<void> | void;
}

/** Microseconds per call. Unlike clock time, processor time hardly depends on other processes. */
export interface Timing {
  readonly clock: number;
  readonly processor: number;
}

/** One timing per round. Timings of the same round were taken close together. */
export type Sample = readonly Timing[];

/**
 * Times all contenders once a round, in a new random order each round, so that other load on the machine affects all of
 * them. The first rounds warm up and are discarded.
 */
export async function measure(contenders: readonly Contender[], rounds: number): Promise<ReadonlyMap<string, Sample>> {
  const samples = new Map<string, Timing[]>(contenders.map(({ name }) => [name, []]));
  for (let round = -Math.ceil(rounds / 5); round < rounds; round++) {
    for (const { name, calls, before, run, without } of shuffled(contenders)) {
      before?.();
      const whole = await timed(run, calls);
      const around = without === undefined ? NOTHING : await timed(without, calls);
      const timing = { clock: whole.clock - around.clock, processor: whole.processor - around.processor };
      if (round >= 0) samples.get(name)?.push(timing);
    }
  }
  return samples;
}

const NOTHING: Timing = { clock: 0, processor: 0 };

async function timed(run: Contender["run"], calls: number): Promise<Timing> {
  collectYoung();
  const spent = process.cpuUsage();
  const start = performance.now();
  await run(calls);
  const clock = (performance.now() - start) * 1000;
  const { user, system } = process.cpuUsage(spent);
  return { clock: clock / calls, processor: (user + system) / calls };
}

function shuffled<T>(items: readonly T[]): readonly T[] {
  return items
    .map((item) => ({ item, key: Math.random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item);
}

export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

function spread(figures: readonly number[]): Spread {
  const sorted = figures.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  const at = (index: number): number => sorted[index] ?? Number.NaN;
  return {
    median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2,
    min: at(0),
    max: at(sorted.length - 1),
  };
}

/** `a` divided by `b`, round by round. */
export function ratio(a: Sample, b: Sample, by: keyof Timing): Spread {
  return spread(a.map((timing, round) => timing[by] / (b[round]?.[by] ?? Number.NaN)));
}

export function spreadOf(sample: Sample, by: keyof Timing): Spread {
  return spread(sample.map((timing) => timing[by]));
}

/** Live bytes on the heap. */
export function heapInUse(): number {
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as (options?: { type: "minor" }) => void;
const collect = (): void => gc();
// Collect garbage between contenders, so that none pays for the garbage of another.
const collectYoung = (): void => gc({ type: "minor" });
