import { spawnSync } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import { short, type Table, times } from "../table.ts";
import { spreadOf } from "./figures.ts";
import { callOnce, type Gateway, type Open, pidOf } from "./gateway.ts";
import { processorMs, type Tree, treeOf } from "./processes.ts";
import type { Ground, Stand, Upstream } from "./stand.ts";

export interface ColdOptions {
  readonly ground: Ground;
  readonly gateways: readonly Gateway[];
  readonly quick: boolean;
  readonly say: (line: string) => void;
  /** Called with each table as soon as it is complete. */
  readonly show: (table: Table) => void;
}

/** The figures of one gateway with a number of configured servers. */
export interface Start {
  readonly gateway: string;
  readonly servers: number;
  /** How many of the servers do not work. They cannot be known, so a gateway may start them for the list. */
  readonly broken: number;
  /** Time until the tools were listed, beyond Node's own start. */
  readonly beyondNodeMs: number;
  readonly childrenAfterList: number;
  /** Memory of the whole process tree after the list, and of the gateway alone after a call. */
  readonly listRss: number;
  readonly ownRss: number;
}

interface Round {
  /** Node alone: clock time and processor time. */
  readonly nodeMs: number;
  readonly nodeProcessorMs: number;
  readonly listMs: number;
  /** Undefined if some tools were still missing at the timeout. */
  readonly completeMs: number | undefined;
  readonly processorMs: number;
  readonly listed: number;
  readonly afterList: Tree;
  readonly callMs: number;
  readonly afterCall: Tree | undefined;
}

const SERVERS = [1, 14, 50] as const;
const QUICK_SERVERS = [14] as const;
const TOOLS_EACH = 10;
const COMPLETE_MS = 10_000;
/** A gateway that has taken longer than this in total gets no further round. */
const ENOUGH_MS = 5000;
const MB = 2 ** 20;

/** Measures the time from process start to an answered `tools/list`. */
export async function benchCold(options: ColdOptions): Promise<Start[]> {
  const starts: Start[] = [];
  for (const count of options.quick ? QUICK_SERVERS : SERVERS) {
    const rows: (readonly [string, readonly Round[]])[] = [];
    const prepared = new Set<string>();
    for (const gateway of options.gateways) {
      options.say(`cold list: ${gateway.name}, ${count} configured …`);
      const rounds = await roundsOf(options, gateway, count, !prepared.has(gateway.kind));
      prepared.add(gateway.kind);
      if (rounds.length > 0) rows.push([gateway.name, rounds]);
    }
    options.show(table(count, rows));
    starts.push(...rows.map(([gateway, rounds]) => startOf(gateway, count, rounds)));
  }
  return starts;
}

async function roundsOf(
  { ground, quick, say }: ColdOptions,
  gateway: Gateway,
  count: number,
  isNew: boolean,
): Promise<Round[]> {
  const stand = standWith(ground, `cold ${count} ${gateway.kind}`, count);
  const rounds: Round[] = [];
  try {
    if (isNew) await gateway.prepare(stand);
    const begun = performance.now();
    // The first round warms the file cache.
    for (let round = quick ? 0 : -1; round < (quick ? 1 : 4); round++) {
      if (gateway.knowsNothing) await gateway.prepare(stand);
      const taken = await roundOf(gateway, stand, count);
      const enough = performance.now() - begun > ENOUGH_MS;
      if (round >= 0 || enough) rounds.push(taken);
      if (enough) break;
    }
  } catch (thrown) {
    say(`cold list: skipped ${gateway.name}: ${thrown}`);
  }
  return rounds;
}

/** The largest number has two broken servers: one exits at once, one never answers. */
const countBroken = (servers: number): number => (servers === SERVERS.at(-1) ? 2 : 0);

function standWith(ground: Ground, name: string, count: number): Stand {
  const broken: Record<string, Upstream> =
    countBroken(count) === 0
      ? {}
      : { exits: ground.upstream("exits", "exits"), silent: ground.upstream("silent", "silent") };
  const names = Array.from({ length: count - Object.keys(broken).length }, (_, index) => `server${index}`);
  const good = Object.fromEntries(names.map((each) => [each, ground.upstream("stdio", each)]));
  return ground.stand(name, { ...good, ...broken }, Object.keys(broken));
}

async function roundOf(gateway: Gateway, stand: Stand, count: number): Promise<Round> {
  const node = nodeAlone();
  const begun = performance.now();
  const open = await gateway.open(stand);
  const pid = pidOf(open);
  try {
    const first = await listTools(open);
    const listMs = performance.now() - begun;
    const spent = processorMs(pid);
    const expected = gateway.shows((count - stand.broken.length) * TOOLS_EACH);
    const { listed, completeMs } = await complete(open, first.tools.length, expected, begun, listMs);
    const listing = { ...node, listMs, completeMs, processorMs: spent, listed, afterList: treeOf(pid) };
    if (listed < expected || gateway.knowsNothing) return { ...listing, callMs: Number.NaN, afterCall: undefined };
    const called = performance.now();
    await callOnce(open, gateway, "server0");
    const callMs = performance.now() - called;
    return { ...listing, callMs, afterCall: treeOf(pid) };
  } finally {
    await open.close();
  }
}

/** Some gateways answer before their servers do. Lists again until all tools are there. */
async function complete(open: Open, first: number, expected: number, begun: number, listMs: number) {
  let listed = first;
  while (listed < expected) {
    if (performance.now() - begun > COMPLETE_MS) return { listed, completeMs: undefined };
    await pause(20);
    listed = (await listTools(open)).tools.length;
  }
  return { listed, completeMs: first >= expected ? listMs : performance.now() - begun };
}

function nodeAlone(): Pick<Round, "nodeMs" | "nodeProcessorMs"> {
  const begun = performance.now();
  spawnSync(process.execPath, ["-e", "1"]);
  const nodeMs = performance.now() - begun;
  const script = "const { user, system } = process.cpuUsage(); console.log((user + system) / 1000)";
  const { stdout } = spawnSync(process.execPath, ["-e", script], { encoding: "utf8" });
  return { nodeMs, nodeProcessorMs: Number(stdout) };
}

const median = (values: readonly number[]): number => spreadOf(values).median;

function startOf(gateway: string, servers: number, rounds: readonly Round[]): Start {
  return {
    gateway,
    servers,
    broken: countBroken(servers),
    beyondNodeMs: median(rounds.map(({ listMs, nodeMs }) => listMs - nodeMs)),
    childrenAfterList: Math.max(...rounds.map(({ afterList }) => afterList.children)),
    listRss: median(rounds.map(({ afterList }) => afterList.rss)),
    ownRss: median(rounds.map(({ afterList, afterCall }) => (afterCall ?? afterList).ownRss)),
  };
}

function table(count: number, rows: readonly (readonly [string, readonly Round[]])[]): Table {
  const broken = countBroken(count) === 0 ? "" : ", two of them broken";
  return {
    title: `From start to a list of tools, ${count} server${count === 1 ? "" : "s"} configured${broken}`,
    head: [
      "",
      "list : node -e 1",
      "beyond node",
      "processor : node",
      "all tools after",
      "tools",
      "children",
      "memory, all",
      "1st call",
      "children",
      "memory, all",
      "itself",
      "rounds",
    ],
    rows: rows.map(([name, rounds]) => [
      name,
      times(spreadOf(rounds.map(({ listMs, nodeMs }) => listMs / nodeMs))),
      `${short(median(rounds.map(({ listMs, nodeMs }) => listMs - nodeMs)))} ms`,
      times(spreadOf(rounds.map((round) => round.processorMs / round.nodeProcessorMs))),
      wholeAfter(rounds),
      median(rounds.map(({ listed }) => listed)),
      median(rounds.map(({ afterList }) => afterList.children)),
      megabytes(rounds.map(({ afterList }) => afterList.rss)),
      `${short(median(rounds.map(({ callMs }) => callMs)))} ms`,
      median(rounds.map(({ afterCall }) => afterCall?.children ?? Number.NaN)),
      megabytes(rounds.map(({ afterCall }) => afterCall?.rss ?? Number.NaN)),
      megabytes(rounds.map(({ afterList, afterCall }) => (afterCall ?? afterList).ownRss)),
      rounds.length,
    ]),
    notes: [
      "From process start to the answer of the first tools/list, medians of rounds. Children and resident memory are those",
      "of the whole process tree, after the list and after one call of one tool. Memory that processes share is counted",
      "once for each of them.",
    ],
  };
}

function wholeAfter(rounds: readonly Round[]): string {
  const times = rounds.map(({ completeMs }) => completeMs ?? Number.POSITIVE_INFINITY);
  const middle = median(times);
  return Number.isFinite(middle) ? `${short(middle)} ms` : `> ${COMPLETE_MS / 1000} s`;
}

const megabytes = (bytes: readonly number[]): string => `${short(Math.round(median(bytes) / MB))} MB`;

async function listTools({ client }: Open) {
  if (client.listTools === undefined) throw new Error("this client cannot list tools");
  return client.listTools();
}
