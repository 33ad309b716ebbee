import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Effect, Quartermaster, TagRule } from "../src/index.ts";
import type { Library } from "./built.ts";
import { type Contender, measure, ratio, type Sample, spreadOf } from "./measure.ts";
import {
  add,
  aiSdk,
  args,
  type Call,
  description,
  input,
  langchainJson,
  langchainZod,
  mcp,
  recordedByHand,
} from "./others.ts";
import { micros, type Table, times } from "./table.ts";
import type { BenchResult, Target } from "./targets.ts";

const OURS = "quartermaster, SQLite file";
const DIRECT = "the handler, called directly";
const LANGCHAIN_ZOD = "LangChain tool.invoke, zod";
const LANGCHAIN_JSON = "LangChain tool.invoke, JSON Schema";
const MCP = "MCP SDK, client and server in memory";

/** The cost of `invoke()` compared to the bare handler and to the tool calls of other libraries. */
export async function benchInvoke({ quick }: { readonly quick: boolean }, library: Library): Promise<BenchResult> {
  const folder = await mkdtemp(join(tmpdir(), "qm-bench-"));
  const opened: Quartermaster[] = [];
  const ours = async (effect: Effect, store?: string, rules: readonly TagRule[] = []): Promise<Call> => {
    const quartermaster = await library.createQuartermaster({
      policy: { rules },
      ...(store === undefined ? {} : { store: join(folder, store) }),
    });
    opened.push(quartermaster);
    quartermaster.register({ name: "add", description, inputSchema: input, handler: add, effect, scope: "generalist" });
    return async () => {
      const outcome = await quartermaster.invoke("tool__add", args);
      if (outcome.status !== "done") throw new Error(outcome.value);
    };
  };
  /** Every call has different arguments, because two identical calls share one approval. */
  const agreed = async (store: string): Promise<Call> => {
    const quartermaster = await library.createQuartermaster({
      store: join(folder, store),
      approvals: { ask: async () => ({ decision: "approved", by: "bench" }) },
    });
    opened.push(quartermaster);
    const tool = { name: "add", description, inputSchema: input, handler: add } as const;
    quartermaster.register({ ...tool, effect: "write", scope: "generalist", requiresApproval: true });
    let calls = 0;
    return async () => {
      const outcome = await quartermaster.invoke("tool__add", { ...args, a: calls++ });
      if (outcome.status !== "done") throw new Error(outcome.value);
    };
  };
  const linked = await mcp();
  const byHand = recordedByHand(join(folder, "by-hand.db"));
  const one = aiSdk(1);
  const eight = aiSdk(8);

  const entries: readonly Entry[] = [
    { name: OURS, calls: 250, call: await ours("pure", "plain.db") },
    { name: "… in memory", calls: 250, call: await ours("pure") },
    { name: "… 20 tag rules", calls: 250, call: await ours("pure", "rules.db", twentyRules) },
    { name: "… in memory, 20 tag rules", calls: 250, call: await ours("pure", undefined, twentyRules) },
    { name: "… effect write: also recorded before the run", calls: 250, call: await ours("write", "write.db") },
    { name: "… approved: stored, claimed, run once", calls: 100, call: await agreed("agreed.db") },
    { name: DIRECT, calls: 50_000, call: () => add(args) },
    { name: "the handler and three rows by hand", calls: 1000, call: byHand.call },
    { name: LANGCHAIN_ZOD, calls: 1000, call: langchainZod() },
    { name: LANGCHAIN_JSON, calls: 1000, call: langchainJson() },
    {
      name: "AI SDK, cost of each of 8 tool calls in a step",
      calls: 800,
      together: 8,
      call: eight.step,
      without: eight.bare,
    },
    { name: "AI SDK, a whole step with 1 tool call", calls: 150, call: one.step },
    { name: MCP, calls: 400, call: linked.call },
  ];
  try {
    const tables: Table[] = [];
    const targets: Target[] = [];
    for (const width of [1, 32]) {
      const contenders = entries.map((entry) => contender(entry, width, quick ? 0.4 : 1));
      const samples = await measure(contenders, quick ? 9 : 21);
      tables.push(table(samples, width));
      targets.push(...listTargets(samples, width));
    }
    return { tables, targets };
  } finally {
    await linked.close();
    byHand.close();
    for (const quartermaster of opened) await quartermaster.close();
    await rm(folder, { recursive: true, force: true });
  }
}

interface Entry {
  readonly name: string;
  readonly calls: number;
  readonly call: Call;
  /** How many tool calls one `call` makes. */
  readonly together?: number;
  readonly without?: Call;
}

function contender({ name, calls, call, together = 1, without }: Entry, width: number, share: number): Contender {
  return {
    name,
    calls: Math.ceil((calls * share) / together) * together,
    run: (count) => inFlight(width, count / together, call),
    ...(without === undefined ? {} : { without: (count) => inFlight(width, count / together, without) }),
  };
}

async function inFlight(width: number, count: number, call: Call): Promise<void> {
  let left = count;
  const worker = async (): Promise<void> => {
    while (left-- > 0) await call();
  };
  await Promise.all(Array.from({ length: width }, worker));
}

/** A recorded call of a read-only tool, compared to calls that record nothing. */
function listTargets(samples: ReadonlyMap<string, Sample>, width: number): readonly Target[] {
  const compare = (name: string, sign: Target["sign"], limit: number): Target => ({
    name: `invoke() : ${name}, ${width} in flight`,
    measured: ratio(samples.get(OURS) ?? [], samples.get(name) ?? [], "processor").median,
    ...{ sign, limit, unit: "×" },
  });
  return [compare(LANGCHAIN_ZOD, "≤", 2), compare(LANGCHAIN_JSON, "≤", 2), compare(MCP, "<", 1)];
}

function table(samples: ReadonlyMap<string, Sample>, width: number): Table {
  const ours = samples.get(OURS) ?? [];
  return {
    title: `invoke(): one tool call, ${width} in flight`,
    head: ["", "first row : this, processor", "by the clock", "a call, processor", "by the clock"],
    rows: [...samples].map(([name, sample]) => [
      name,
      times(ratio(ours, sample, "processor")),
      times(ratio(ours, sample, "clock")),
      micros(spreadOf(sample, "processor")),
      micros(spreadOf(sample, "clock")),
    ]),
    notes: [
      "Medians of rounds (smallest–largest). Above x1, the first row takes longer than this row.",
      "Quartermaster validates, decides, records three events and waits until they are written. The other libraries record nothing.",
    ],
  };
}

/** Rules as in a real installation. None matches the tool, so each is evaluated to the end. */
const twentyRules: readonly TagRule[] = [
  ...["destructive", "billing", "internal", "beta", "legacy", "pii"].map(
    (tag): TagRule => ({ rule: `'${tag}' in tool.tags && actor.scope != 'admin'`, effect: "hide" }),
  ),
  ...["acme", "globex", "initech", "umbrella"].map(
    (tenant): TagRule => ({ rule: `ctx.tenant == '${tenant}' && tool.effect != 'read'`, effect: "deny" }),
  ),
  ...["deploy", "payments", "mail", "crm", "search"].map(
    (category): TagRule => ({ rule: `tool.category == '${category}' && !('approved' in tool.tags)`, effect: "ask" }),
  ),
  ...[10, 100, 1000, 10_000, 100_000].map(
    (amount): TagRule => ({ rule: `'amount' in args && args.amount > ${amount}`, effect: "ask" }),
  ),
];
