import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** One way of doing a thing. */
export interface Contender {
  readonly name: string;
  /** How often it is done in a round. */
  readonly calls: number;
  /** Not timed: brings about what `run` starts from, as others may have undone it since. */
  before?(): void;
  run(calls: number): Promise<void> | void;
  /** Timed right beside it in every round and taken off: what stands around the thing itself. */
  without?(calls: number): Promise<void> | void;
}

/** Microseconds a call. What the processor spent on it, unlike what the clock shows, hardly depends on who else works. */
export interface Timing {
  readonly clock: number;
  readonly processor: number;
}

/** One timing a round: those of the same round were taken close together. */
export type Sample = readonly Timing[];

/**
 * Times all contenders once a round, in another random order each round, so that whatever else the machine does falls
 * on all of them. Some rounds before warm up and are thrown away.
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

/** How many times `a` is `b`, round by round. */
export function ratio(a: Sample, b: Sample, by: keyof Timing): Spread {
  return spread(a.map((timing, round) => timing[by] / (b[round]?.[by] ?? Number.NaN)));
}

export function spreadOf(sample: Sample, by: keyof Timing): Spread {
  return spread(sample.map((timing) => timing[by]));
}

/** Bytes alive on the heap. */
export function heapInUse(): number {
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as (options?: { type: "minor" }) => void;
const collect = (): void => gc();
// One contender's garbage must not be collected on another's time.
const collectYoung = (): void => gc({ type: "minor" });
