import { setTimeout as pause } from "node:timers/promises";
import { short, type Table, times } from "../table.ts";
import { callOnce, callUntilAnswered, type Gateway, type Open, pidOf } from "./gateway.ts";
import { killMarked, marked, stillRuns, type Tree, treeOf } from "./processes.ts";
import type { Ground } from "./stand.ts";

export interface LongOptions {
  readonly ground: Ground;
  readonly gateways: readonly Gateway[];
  readonly quick: boolean;
  readonly say: (line: string) => void;
  readonly show: (table: Table) => void;
}

/** The state of a gateway after many calls, and after it was killed. */
export interface After {
  readonly gateway: string;
  readonly calls: number;
  readonly before: Tree;
  readonly after: Tree;
  readonly orphans: number;
}

const WARM = 1000;
const WIDTH = 8;
const LIMIT_MS = 240_000;
const SLOW_LIMIT_MS = 8000;
const ORPHAN_MS = 5000;
const MB = 2 ** 20;

/** Many calls, then SIGKILL. */
export async function benchLong(options: LongOptions): Promise<After[]> {
  const afters: After[] = [];
  for (const gateway of options.gateways) {
    options.say(`many calls: ${gateway.name} …`);
    try {
      afters.push(await afterMany(options, gateway));
    } catch (thrown) {
      options.say(`many calls: skipped ${gateway.name}: ${thrown}`);
    }
  }
  options.show(table(afters));
  return afters;
}

async function afterMany({ ground, quick }: LongOptions, gateway: Gateway): Promise<After> {
  const stand = ground.stand(`long ${gateway.name}`, { pipe: ground.upstream("stdio", "pipe") });
  await gateway.prepare(stand);
  const others = new Set(marked(ground.mark));
  const open = await gateway.open(stand);
  const pid = pidOf(open);
  const limit = (gateway.slow ? SLOW_LIMIT_MS : LIMIT_MS) / (quick ? 3 : 1);
  try {
    await callUntilAnswered(open, gateway, "pipe");
    await many(open, gateway, WARM, limit / 4);
    const before = treeOf(pid);
    const calls = await many(open, gateway, quick ? 2000 : 100_000, limit);
    const after = treeOf(pid);
    if (!killMarked(pid, ground.mark)) throw new Error("the gateway ended before it was killed");
    await pause(ORPHAN_MS);
    const left = after.processes.filter(stillRuns).map((each) => each.pid);
    const orphans = new Set([...left, ...marked(ground.mark).filter((each) => !others.has(each))]);
    for (const orphan of orphans) killMarked(orphan, ground.mark);
    return { gateway: gateway.name, calls, before, after, orphans: orphans.size };
  } finally {
    await open.close().catch(() => {});
  }
}

async function many(open: Open, gateway: Gateway, calls: number, limitMs: number): Promise<number> {
  const until = performance.now() + limitMs;
  let left = calls;
  let made = 0;
  const worker = async (): Promise<void> => {
    while (left-- > 0 && performance.now() < until) {
      await callOnce(open, gateway, "pipe");
      made++;
    }
  };
  await Promise.all(Array.from({ length: WIDTH }, worker));
  return made;
}

function table(afters: readonly After[]): Table {
  return {
    title: "After many calls to a stdio server, 8 in flight, and 5 s after SIGKILL",
    head: ["", "calls", "memory : before", "before", "after", "descriptors", "children", "left after SIGKILL"],
    rows: afters.map(({ gateway, calls, before, after, orphans }) => {
      const grown = after.ownRss / before.ownRss;
      return [
        gateway,
        short(calls),
        times({ median: grown, min: grown, max: grown }),
        megabytes(before.ownRss),
        megabytes(after.ownRss),
        `${before.descriptors} → ${after.descriptors}`,
        `${before.children} → ${after.children}`,
        orphans,
      ];
    }),
    notes: [
      `"Before" is after ${short(WARM)} calls. Memory and open descriptors are those of the gateway's own process, children`,
      "those of the whole tree. The last column counts its processes and servers 5 s after the gateway was killed.",
    ],
  };
}

const megabytes = (bytes: number): string => `${short(Math.round(bytes / MB))} MB`;
