import { short, type Table, times } from "../table.ts";
import { percentile, spreadOf } from "./figures.ts";
import { callOnce, callUntilAnswered, type Gateway, type Open } from "./gateway.ts";
import { processorMs } from "./processes.ts";
import type { Ground, Upstream } from "./stand.ts";

/** A gateway with a server behind it, and the direct connection to that server as the baseline. */
export interface Way {
  readonly gateway: Gateway;
  readonly server: "pipe" | "web";
}

export interface CallsOptions {
  readonly ground: Ground;
  readonly gateways: readonly Gateway[];
  readonly quick: boolean;
  readonly say: (line: string) => void;
  /** Called with each table as soon as it is complete. */
  readonly show: (table: Table) => void;
}

/** The cost of a call through a gateway, at one concurrency. */
export interface Cost {
  readonly gateway: string;
  readonly server: string;
  readonly width: number;
  readonly addedP50: number;
  readonly callsPerSecond: number;
  /** Of the gateway's process, for each call. */
  readonly processorMs: number;
  readonly isRaw: boolean;
}

interface Measured {
  readonly way: Way;
  readonly open: Open;
  readonly rounds: Round[];
}

interface Round {
  readonly latencies: readonly number[];
  readonly wallMs: number;
  readonly processorMs: number;
}

const WIDTHS = [1, 8, 32] as const;
const QUICK_WIDTHS = [1, 8] as const;
const DESCRIBED = { pipe: "a server on stdio", web: "a server over HTTP" } as const;

/** Calls a tool that does nothing through every gateway, in turns. */
export async function benchCalls(options: CallsOptions): Promise<Cost[]> {
  const { ground, quick, say, show } = options;
  const upstreams = { pipe: ground.upstream("stdio", "pipe"), web: await ground.remoteUpstream("web") };
  const measured = await openAll(options, upstreams);
  const costs: Cost[] = [];
  try {
    say(`calls: warming up ${measured.length} connections …`);
    const [warmCalls, wideCalls] = quick ? [200, 250] : [3000, 1000];
    for (const each of measured) await slot(each, 8, warmCalls, warmMs(each, quick));
    for (const width of quick ? QUICK_WIDTHS : WIDTHS) {
      const rounds = (width === 1 ? 20 : 5) / (quick ? 5 : 1);
      say(`calls: ${rounds} rounds, ${width} in flight …`);
      for (const each of measured) each.rounds.length = 0;
      for (let round = 0; round < rounds; round++) {
        for (const each of shuffled(measured)) {
          const { slow = false } = each.way.gateway;
          if (slow && round >= rounds / 2) continue;
          each.rounds.push(await slot(each, width, width === 1 ? 100 : wideCalls, slow ? SLOW_SLOT_MS : SLOT_MS));
        }
      }
      show(table(measured, width));
      for (const { way, rounds: taken } of measured) {
        const { rounds: floor } = floorOf(measured, way);
        costs.push({
          gateway: way.gateway.name,
          server: way.server,
          width,
          addedP50: p(taken, 0.5) - p(floor, 0.5),
          callsPerSecond: spreadOf(taken.map(speedOf)).median * 1000,
          processorMs: processorOf(taken),
          isRaw: way.gateway.isRaw === true,
        });
      }
    }
  } finally {
    for (const { open } of measured) await open.close().catch(() => {});
  }
  return costs;
}

/** The maximum time per round for each gateway. */
const SLOT_MS = 1500;
const SLOW_SLOT_MS = 300;
/** Until then Node has compiled the code of all of them. A gateway runs for much longer. */
const WARM_MS = 6000;
const warmMs = ({ way }: Measured, quick: boolean): number => (way.gateway.slow ? SLOW_SLOT_MS : quick ? 500 : WARM_MS);

/** Every gateway is one process with both servers behind it. A direct connection has one server. */
async function openAll(
  { ground, gateways, say }: CallsOptions,
  upstreams: Readonly<Record<Way["server"], Upstream>>,
): Promise<Measured[]> {
  const measured: Measured[] = [];
  for (const gateway of gateways) {
    const servers = serversOf(gateway);
    const given = Object.fromEntries(servers.map((server) => [server, upstreams[server]]));
    const stand = ground.stand(`calls ${gateway.name}`, given);
    try {
      await gateway.prepare(stand);
      const open = await gateway.open(stand);
      for (const server of servers) {
        await callUntilAnswered(open, gateway, server);
        measured.push({ way: { gateway, server }, open, rounds: [] });
      }
    } catch (thrown) {
      say(`calls: skipped ${gateway.name}: ${thrown}`);
    }
  }
  return measured;
}

function serversOf({ name, era, isRaw }: Gateway): readonly Way["server"][] {
  if (isRaw) return ["pipe"];
  if (name.startsWith("direct")) return [name.includes("stdio") ? "pipe" : "web"];
  return era === "modern" ? ["web"] : ["pipe", "web"];
}

/** Makes `calls` calls, or as many as fit into the time limit. */
async function slot({ way: { gateway, server }, open }: Measured, width: number, calls: number, limitMs: number) {
  const latencies: number[] = [];
  const spent = (): number => (open.pid === undefined ? Number.NaN : processorMs(open.pid));
  const processor = spent();
  const begun = performance.now();
  let left = calls;
  const worker = async (): Promise<void> => {
    while (left-- > 0 && performance.now() - begun < limitMs) {
      const at = performance.now();
      await callOnce(open, gateway, server);
      latencies.push(performance.now() - at);
    }
  };
  await Promise.all(Array.from({ length: width }, worker));
  return { latencies, wallMs: performance.now() - begun, processorMs: spent() - processor };
}

function floorOf(measured: readonly Measured[], { gateway, server }: Way): Measured {
  const floor = measured.find(
    ({ way }) =>
      way.gateway.name.startsWith(gateway.isRaw ? "floor" : "direct") &&
      way.server === server &&
      way.gateway.era === gateway.era,
  );
  if (floor === undefined) throw new Error(`no baseline for ${gateway.name}`);
  return floor;
}

function table(measured: readonly Measured[], width: number): Table {
  const sorted = measured.toSorted((a, b) => a.way.server.localeCompare(b.way.server));
  return {
    title: `One call through a gateway, ${width} in flight`,
    head: [
      "",
      "its processor a call",
      "calls/s",
      "calls/s : baseline",
      "p50 : baseline",
      "p50 added",
      "p99 added",
      "calls",
    ],
    rows: sorted.map((each) => {
      const floor = floorOf(measured, each.way);
      const { rounds } = each;
      const isFloor = each === floor;
      return [
        `${each.way.gateway.name} → ${DESCRIBED[each.way.server]}`,
        each.open.pid === undefined ? "–" : ms(processorOf(rounds)),
        short(spreadOf(rounds.map(speedOf)).median * 1000),
        times(spreadOf(rounds.map((round, at) => speedOf(round) / speedOf(floor.rounds[at] ?? round)))),
        times(spreadOf(rounds.map((round, at) => p([round], 0.5) / p(floor.rounds.slice(at, at + 1), 0.5)))),
        isFloor ? `(${ms(p(rounds, 0.5))})` : ms(p(rounds, 0.5) - p(floor.rounds, 0.5)),
        isFloor ? `(${ms(p(rounds, 0.99))})` : ms(p(rounds, 0.99) - p(floor.rounds, 0.99)),
        short(countCalls(rounds)),
      ];
    }),
    notes: [
      "The baseline is the direct connection to the same server, and for raw clients the floor: HTTP in, a line of JSON to the",
      "server and back, HTTP out. Its absolute figures are in brackets. Ratios are medians of rounds (smallest–largest).",
      "Processor time is that of the gateway's process, without its servers.",
      "Quartermaster validates, decides and writes each call to the ledger. The other gateways record nothing.",
    ],
  };
}

const speedOf = ({ latencies, wallMs }: Round): number => latencies.length / wallMs;
const countCalls = (rounds: readonly Round[]): number =>
  rounds.reduce((sum, { latencies }) => sum + latencies.length, 0);
const processorOf = (rounds: readonly Round[]): number =>
  rounds.reduce((sum, { processorMs: spent }) => sum + spent, 0) / countCalls(rounds);

function p(rounds: readonly Round[], share: number): number {
  return percentile(
    rounds.flatMap(({ latencies }) => latencies),
    share,
  );
}

const ms = (value: number): string => `${short(value)} ms`;

function shuffled<T>(items: readonly T[]): readonly T[] {
  return items
    .map((item) => ({ item, key: Math.random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item);
}
