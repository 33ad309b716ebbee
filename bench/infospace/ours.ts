import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Library } from "../built.ts";
import { AGAIN, FOUND, LEAST, PAGE, type Records, WORD } from "./records.ts";
import type { Side } from "./side.ts";

/** Through the invoke pipeline, like a model: every step is a call that is decided on and recorded. */
export async function ours(library: Library, { orders, customers }: Records): Promise<Side> {
  const folder = mkdtempSync(join(tmpdir(), "qm-bench-"));
  const qm = await library.createQuartermaster({
    store: join(folder, "store.db"),
    limits: { timeoutMs: 600_000 },
    infospace: { fillLimit: 256 * 1024 * 1024 },
  });
  const common = { inputSchema: { type: "object" }, effect: "read", scope: "generalist" } as const;
  qm.register({ ...common, name: "orders", description: "All orders.", handler: () => orders });
  qm.register({ ...common, name: "customers", description: "All customers.", handler: () => customers });
  qm.register({
    ...common,
    name: "count",
    description: "Counts rows.",
    handler: ({ rows }) => (rows as readonly unknown[]).length,
  });
  const caller = { session: "bench" };
  async function done(name: string, args: object = {}): Promise<Record<string, unknown>> {
    const outcome = await qm.invoke(name, args, { caller });
    if (outcome.status !== "done") throw new Error(outcome.value);
    return { data: outcome.data, ...outcome.kept };
  }
  const of = async (name: string, args: object) => (await done(name, args)).data as Record<string, unknown>;
  const target = (await done("tool__orders")).handle;
  const others = (await done("tool__customers")).handle;

  async function search(): Promise<number> {
    const { hits } = await of("infospace__search-within-collection", { target, query: WORD, limit: FOUND });
    return (hits as readonly unknown[]).length;
  }

  return {
    name: "infospace",
    create: async () => Number((await done("tool__orders")).count),
    async load() {
      const from = orders.length / 2;
      const { items } = await of("infospace__load", { target, from, to: from + PAGE });
      return (items as readonly unknown[]).length;
    },
    "read all": async () => Number((await done("tool__count", { rows: { $from: target } })).data),
    filter: async () =>
      Number(
        (await of("infospace__filter-structured", { target, where: `amount >= ${LEAST} && status == 'open'` })).count,
      ),
    join: async () =>
      Number((await of("infospace__join", { target, with: others, on: { left: "customer", right: "id" } })).count),
    search,
    async "search again"() {
      let found = 0;
      for (let time = 0; time < AGAIN; time++) found += await search();
      return found;
    },
    async close() {
      await qm.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
