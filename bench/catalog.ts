import type { Action, Quartermaster } from "../src/index.ts";
import { fiveRules, manyActions, providerOf, RARE, RARE_COUNT } from "./actions.ts";
import type { Library } from "./built.ts";
import { type Contender, heapInUse, measure, ratio, type Sample, spreadOf } from "./measure.ts";
import { micros, short, type Table, times } from "./table.ts";
import type { BenchResult } from "./targets.ts";

const LARGE = "crm";
const SMALL = "clock";
const SMALL_COUNT = 20;

/** How the cost of catalog queries grows with the number of actions. */
export async function benchCatalog({ quick }: { readonly quick: boolean }, library: Library): Promise<BenchResult> {
  const sizes = quick ? [100, 1000, 10_000] : [100, 1000, 10_000, 100_000];
  const fixtures: Fixture[] = [];
  for (const size of sizes) fixtures.push(await fixture(library, size));
  const contenders = fixtures.flatMap(({ size, plain, ruled, actions }) => [
    ...operations(plain, actions).map((operation) => contender(operation, size, "", quick)),
    ...operations(ruled, actions)
      .filter(({ name }) => !name.endsWith(MISSPELT))
      .map((operation) => contender(operation, size, RULED, quick)),
  ]);
  try {
    const samples = await measure(contenders, quick ? 3 : 5);
    const names = [...new Set([...samples.keys()].map((key) => key.slice(key.indexOf(" ") + 1)))];
    const tables = [
      growth(samples, names, sizes),
      medians(samples, names, sizes),
      rules(samples, names, sizes),
      memory(fixtures),
    ];
    return { tables, targets: [] };
  } finally {
    for (const { plain, ruled } of fixtures) {
      await plain.close();
      await ruled.close();
    }
  }
}

const RULED = ", 5 rules";
// Measured without rules: they hardly affect it, and it takes long.
const MISSPELT = "misspelt name";

interface Fixture {
  readonly size: number;
  readonly actions: readonly Action[];
  readonly plain: Quartermaster;
  readonly ruled: Quartermaster;
  /** The bytes per action that each step added to the heap. */
  readonly heap: readonly number[];
}

async function fixture(library: Library, size: number): Promise<Fixture> {
  const heap = [heapInUse()];
  const actions = manyActions(library, LARGE, size);
  heap.push(heapInUse());
  const few = providerOf(SMALL, manyActions(library, SMALL, SMALL_COUNT));
  const made = { providers: [providerOf(LARGE, actions), few] };
  const plain = await library.createQuartermaster(made);
  plain.list();
  heap.push(heapInUse());
  plain.list({}, { session: "another" });
  heap.push(heapInUse());
  plain.list({ filter: RARE });
  heap.push(heapInUse());
  misspelt(plain, actions);
  heap.push(heapInUse());
  const ruled = await library.createQuartermaster({ ...made, policy: { rules: fiveRules } });
  const steps = heap.slice(1).map((bytes, index) => (bytes - (heap[index] ?? 0)) / size);
  return { size, actions, plain, ruled, heap: steps };
}

interface Operation {
  readonly name: string;
  run(): void;
  /** Whether it visits every action, judging by the figures. Such tasks run less often. */
  readonly every: boolean;
  /** What runs before, not timed. Default: the task itself, so that it is timed from the second run on. */
  readonly before?: () => void;
}

function operations(quartermaster: Quartermaster, actions: readonly Action[]): readonly Operation[] {
  let sessions = 0;
  const newCaller = () => ({ session: `bench ${sessions++}` });
  const newTenant = () => ({ ...newCaller(), tenant: `tenant ${sessions}` });
  const otherSession = (): void => void quartermaster.list();
  const last = actions.at(-1)?.name ?? "";
  const listAnew = (): void => quartermaster.catalog.provide(providerOf(LARGE, actions));
  return [
    { name: "first page", every: false, run: () => void quartermaster.list() },
    { name: "page at offset 500", every: false, run: () => void quartermaster.list({ offset: 500 }) },
    { name: "category of all", every: false, run: () => void quartermaster.list({ category: [LARGE] }) },
    { name: `category of ${SMALL_COUNT}`, every: false, run: () => void quartermaster.list({ category: [SMALL] }) },
    { name: `filter that ${RARE_COUNT} match`, every: true, run: () => void quartermaster.list({ filter: RARE }) },
    { name: "describe one", every: false, run: () => void quartermaster.describe(last) },
    { name: MISSPELT, every: true, run: () => misspelt(quartermaster, actions) },
    {
      name: "new session: first page",
      every: false,
      before: otherSession,
      run: () => void quartermaster.list({}, newCaller()),
    },
    {
      name: "new tenant: first page",
      every: true,
      before: otherSession,
      run: () => void quartermaster.list({}, newTenant()),
    },
    {
      name: `new session: category of ${SMALL_COUNT}`,
      every: false,
      before: otherSession,
      run: () => void quartermaster.list({ category: [SMALL] }, newCaller()),
    },
    {
      name: "new session: describe one",
      every: false,
      before: otherSession,
      run: () => void quartermaster.describe(last, newCaller()),
    },
    {
      name: "provider lists again: first page",
      every: true,
      before: () => {},
      run() {
        listAnew();
        quartermaster.list();
      },
    },
    {
      name: `provider lists again: ${MISSPELT}`,
      every: true,
      before: () => {},
      run() {
        listAnew();
        misspelt(quartermaster, actions);
      },
    },
  ];
}

/** Describes a name with two letters swapped. The error must suggest the right name. */
function misspelt(quartermaster: Quartermaster, actions: readonly Action[]): void {
  const meant = actions[Math.floor(actions.length / 2)];
  if (meant === undefined) return;
  const [verb = "", noun = "", area = ""] = meant.entry.split("_");
  try {
    quartermaster.describe(`${LARGE}__${verb}_${noun.slice(0, -2)}${noun.at(-1)}${noun.at(-2)}_${area}`);
  } catch (thrown) {
    if (JSON.stringify(thrown).includes(meant.name)) return;
    throw thrown;
  }
  throw new Error("a misspelt name was accepted");
}

function contender(operation: Operation, size: number, suffix: string, quick: boolean): Contender {
  const once = operation.every ? 20_000 / size : 500;
  return {
    name: key(size, operation.name + suffix),
    calls: Math.max(1, Math.ceil(quick ? once / 4 : once)),
    before: operation.before ?? operation.run,
    run(calls) {
      for (let call = 0; call < calls; call++) operation.run();
    },
  };
}

const key = (size: number, name: string): string => `${size} ${name}`;

type Samples = ReadonlyMap<string, Sample>;

function growth(samples: Samples, names: readonly string[], sizes: readonly number[]): Table {
  const steps = sizes.slice(1).map((size, index) => ({ from: sizes[index] ?? size, size }));
  return {
    title: "catalog: time for ten times as many actions (x1 is constant, x10 is linear)",
    head: ["", ...steps.map(({ from, size }) => `${short(from)} → ${short(size)}`)],
    rows: names.map((name) => [
      name,
      ...steps.map(({ from, size }) =>
        times(ratio(samples.get(key(size, name)) ?? [], samples.get(key(from, name)) ?? [], "processor")),
      ),
    ]),
  };
}

function medians(samples: Samples, names: readonly string[], sizes: readonly number[]): Table {
  return {
    title: "catalog: processor time in microseconds, on this machine",
    head: ["", ...sizes.map(short)],
    rows: names.map((name) => [
      name,
      ...sizes.map((size) => micros(spreadOf(samples.get(key(size, name)) ?? [], "processor"))),
    ]),
  };
}

function rules(samples: Samples, names: readonly string[], sizes: readonly number[]): Table {
  return {
    title: "catalog: with 5 tag rules, compared to none",
    head: ["", ...sizes.map(short)],
    rows: names
      .filter((name) => names.includes(name + RULED))
      .map((name) => [
        name,
        ...sizes.map((size) =>
          times(ratio(samples.get(key(size, name + RULED)) ?? [], samples.get(key(size, name)) ?? [], "processor")),
        ),
      ]),
  };
}

function memory(fixtures: readonly Fixture[]): Table {
  const steps = [
    "declared (name, text, schema)",
    "registered, first page listed",
    "another session's first page",
    "first filter",
    "first misspelt name",
  ];
  // In a small heap, the engine's own allocations hide the rest.
  const large = fixtures.filter(({ size }) => size >= 10_000);
  return {
    title: "catalog: heap bytes per action that each step adds",
    head: ["", ...large.map(({ size }) => short(size))],
    rows: steps.map((step, index) => [step, ...large.map(({ heap }) => heap[index] ?? Number.NaN)]),
  };
}
