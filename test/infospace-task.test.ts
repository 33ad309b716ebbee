import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorkspace } from "../src/index.ts";
import { loadTokenCounter } from "../src/surface/open-surface.ts";
import { findCompiled } from "./support/compiled.ts";

/**
 * A task that is too large to read: find the large disputed orders among 100,000 (30 MB), join the customers' names and
 * pass the rows to a third action. The model is scripted. Everything behind it is real: an MCP client, the gateway as a
 * separate process, and an MCP server behind it.
 */
const ORDERS = 100_000;
const qm = findCompiled("src/cli/bin.ts");
const shop = join(import.meta.dirname, "fixtures/shop-server.mjs");

let folder: string;
const clients: Client[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "qm-task-"));
  const servers = { shop: { command: process.execPath, args: [shop, join(folder, "reports.jsonl"), String(ORDERS)] } };
  const gateway = { profiles: { whole: { pass_through: ["shop"] } } };
  const config = { servers, gateway, providers: { file: { enabled: false } } };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify(config));
  // Learn the shop's tools in an earlier run, as in a real installation.
  const earlier = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH } });
  await earlier.servers.hub.connect("shop");
  await earlier.close();
}, 60_000);

afterAll(async () => {
  for (const client of clients) await client.close();
  await rm(folder, { recursive: true, force: true });
});

interface Model {
  /** The tokens that the model has read and written so far. */
  readonly tokens: { read: number; written: number };
  /** Calls a tool and reads the answer. */
  call(tool: string, args: object): Promise<string>;
}

/** A scripted model with its own gateway. It counts the tokens that it reads and writes. */
async function createModel(profile: string): Promise<Model> {
  const client = new Client({ name: "scripted", version: "1" });
  const args = [qm, "mcp", "--profile", profile];
  // By default a client accepts at most ten megabytes.
  const maxBufferSize = 256 * 1024 * 1024;
  const server = { command: process.execPath, args, cwd: folder, stderr: "inherit", maxBufferSize } as const;
  await client.connect(new StdioClientTransport(server));
  clients.push(client);
  const count = await loadTokenCounter();
  const tokens = { read: 0, written: 0 };
  return {
    tokens,
    async call(tool, args) {
      tokens.written += count(JSON.stringify(args));
      const answer = await client.callTool({ name: tool, arguments: { ...args } }, { timeout: 120_000 });
      // Everything a client can show its model, including duplicates.
      const shown = JSON.stringify(answer.content) + JSON.stringify(answer.structuredContent ?? "");
      tokens.read += countLong(shown, count);
      expect(answer.isError, shown.slice(0, 600)).not.toBe(true);
      const [block] = answer.content as { type: string; text: string }[];
      return block?.text ?? "";
    },
  };
}

test("filters, joins and passes on 30 MB while the model reads only a few thousand tokens", async () => {
  const { call, tokens } = await createModel("default");
  const step = async (action_name: string, args: object): Promise<Record<string, unknown>> =>
    JSON.parse(await call("invoke_action", { action_name, args })) as Record<string, unknown>;

  const orders = await step("mcp__shop__list_orders", {});
  expect(orders).toMatchObject({ handle: expect.stringMatching(/^collection__\d+$/), count: ORDERS });
  expect(orders.bytes).toBeGreaterThan(30_000_000);
  const disputed = await step("infospace__filter-structured", {
    target: orders.handle,
    where: "item.status == 'disputed' && item.amount > 500.0",
  });
  const customers = await step("mcp__shop__list_customers", {});
  const joined = await step("infospace__join", {
    target: disputed.handle,
    with: customers.handle,
    on: { left: "customer", right: "id" },
  });
  const rows = await step("infospace__project", {
    target: joined.handle,
    fields: ["order_id", "name", "region", "amount"],
  });
  const args = { title: "Disputed", rows: { $from: rows.handle } };
  const sent = await call("invoke_action", { action_name: "mcp__shop__send_report", args });

  const through = await runWithoutHandles();
  const [byHandle, byHand] = (await readFile(join(folder, "reports.jsonl"), "utf8")).trim().split("\n");
  expect(JSON.parse(byHandle ?? "{}").rows).toEqual(expectedRows());
  expect(byHand).toBe(byHandle);
  expect(sent).toContain(`sent ${expectedRows().length} rows`);

  const times = Math.round((through.read + through.written) / (tokens.read + tokens.written));
  console.log(
    `tokens by handle: read ${tokens.read}, written ${tokens.written}; ` +
      `through the model: read ${through.read}, written ${through.written}; ${times} times as many`,
  );
  expect(tokens.read).toBeLessThan(6_000);
  expect(times).toBeGreaterThan(500);
}, 240_000);

/** The same task for a model that receives whole results and writes the rows itself. */
async function runWithoutHandles(): Promise<Model["tokens"]> {
  const { call, tokens } = await createModel("whole");
  const orders = JSON.parse(await call("list_orders", {})) as Order[];
  const customers = JSON.parse(await call("list_customers", {})) as Customer[];
  const byId = new Map(customers.map((each) => [each.id, each]));
  const rows = orders
    .filter(({ status, amount }) => status === "disputed" && amount > 500)
    .map(({ order_id, customer, amount }) => {
      const { name, region } = byId.get(customer) as Customer;
      return { order_id, name, region, amount };
    });
  await call("send_report", { title: "Disputed", rows });
  return tokens;
}

interface Order {
  readonly order_id: number;
  readonly customer: string;
  readonly amount: number;
  readonly status: string;
}

interface Customer {
  readonly id: string;
  readonly name: string;
  readonly region: string;
}

/** The expected rows, computed with plain arrays. */
function expectedRows() {
  const regions = ["north", "south", "east", "west"];
  const getAmount = (at: number) => ((at * 7919) % 100_000) / 100;
  return Array.from({ length: ORDERS }, (_, at) => at)
    .filter((at) => at % 400 === 0 && getAmount(at) > 500)
    .map((at) => {
      const customer = at % 5000;
      return {
        order_id: at + 1,
        name: `Customer ${customer}`,
        region: regions[customer % 4],
        amount: getAmount(at),
      };
    });
}

const PART = 20_000;
const EVERY = 20;

/** Counting 30 MB is slow and the text is uniform, so a long text is estimated from every twentieth part. */
function countLong(text: string, count: (text: string) => number): number {
  if (text.length <= PART * EVERY) return count(text);
  let tokens = 0;
  for (let at = 0; at < text.length; at += PART * EVERY) tokens += count(text.slice(at, at + PART));
  return tokens * EVERY;
}
