import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openWorkspace } from "../src/index.ts";
import { tokenCounter } from "../src/surface/tokens.ts";

/**
 * A task that cannot be done by reading: of 100,000 orders (30 MB) those that are disputed and large, with the customers'
 * names, as the argument of a third action. The model is scripted; everything behind it is real: an MCP client, the gateway
 * as a process of its own, and an MCP server behind that.
 */
const ORDERS = 100_000;
const tsx = join(import.meta.dirname, "../node_modules/tsx/dist/cli.mjs");
const qm = join(import.meta.dirname, "../src/cli/bin.ts");
const shop = join(import.meta.dirname, "fixtures/shop-server.mjs");

let folder: string;
let client: Client;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "qm-task-"));
  const servers = { shop: { command: process.execPath, args: [shop, join(folder, "reports.jsonl"), String(ORDERS)] } };
  await writeFile(
    join(folder, "quartermaster.yaml"),
    JSON.stringify({ servers, providers: { file: { enabled: false } } }),
  );
  // What the shop offers is known from an earlier time, as it would be.
  const earlier = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH } });
  await earlier.servers.hub.connect("shop");
  await earlier.close();
  client = new Client({ name: "scripted", version: "1" });
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args: [tsx, qm, "mcp"], cwd: folder, stderr: "inherit" }),
  );
}, 60_000);

afterAll(async () => {
  await client?.close();
  await rm(folder, { recursive: true, force: true });
});

test("30 MB are filtered, joined and given to a third action, and the model reads a few hundred tokens of them", async () => {
  const count = await tokenCounter();
  let read = 0;
  let written = 0;
  async function step(action: string, args: object): Promise<Record<string, unknown>> {
    const asked = { action_name: action, args };
    written += count(JSON.stringify(asked));
    const answer = await client.callTool({ name: "invoke_action", arguments: asked }, { timeout: 120_000 });
    // All that a client can show its model, said twice or not.
    read += count(JSON.stringify(answer.content)) + count(JSON.stringify(answer.structuredContent ?? ""));
    expect(answer.isError, JSON.stringify(answer.content).slice(0, 600)).not.toBe(true);
    const [block] = answer.content as { type: string; text: string }[];
    return { text: block?.text ?? "", ...(parsed(block?.text ?? "") as object) };
  }

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
  const sent = await step("mcp__shop__send_report", { title: "Disputed", rows: { $from: rows.handle } });

  const [report] = (await readFile(join(folder, "reports.jsonl"), "utf8")).trim().split("\n");
  const got = JSON.parse(report ?? "{}") as { title: string; rows: readonly object[] };
  const wanted = expectedRows();
  expect(got.rows).toEqual(wanted);
  expect(sent.text).toContain(`sent ${wanted.length} rows`);

  const through = tokensThroughTheModel(count, wanted);
  console.log(
    `tokens by handle: read ${read}, written ${written}; through the model: read ${through.read}, written ${through.written}; ` +
      `${Math.round((through.read + through.written) / (read + written))} times as many`,
  );
  expect(read).toBeLessThan(6_000);
  expect((through.read + through.written) / (read + written)).toBeGreaterThan(500);
}, 240_000);

/** The same by hand, in plain arrays. */
function expectedRows() {
  const regions = ["north", "south", "east", "west"];
  const amountOf = (at: number) => ((at * 7919) % 100_000) / 100;
  return Array.from({ length: ORDERS }, (_, at) => at)
    .filter((at) => at % 400 === 0 && amountOf(at) > 500)
    .map((at) => {
      const customer = at % 5000;
      return {
        order_id: at + 1,
        name: `Customer ${customer}`,
        region: regions[customer % 4],
        amount: amountOf(at),
      };
    });
}

/** What a model would read and write that is given the lists whole and passes the rows on itself. */
function tokensThroughTheModel(count: (text: string) => number, rows: readonly object[]) {
  // Counting 30 MB takes long; the orders are all alike, so a thousand of them stand for the rest.
  const sample = Array.from({ length: 1000 }, (_, at) => ({
    order_id: at + 1,
    customer: `c${at % 5000}`,
    amount: ((at * 7919) % 100_000) / 100,
    status: "paid",
    remarks: `Order ${at + 1}: packed, weighed and handed over. `.repeat(5),
  }));
  const customers = Array.from({ length: 5000 }, (_, at) => ({
    id: `c${at}`,
    name: `Customer ${at}`,
    region: "north",
    address: `${at} Long Street, ${"Somewhere ".repeat(5)}`,
  }));
  const read = (count(JSON.stringify(sample)) * ORDERS) / 1000 + count(JSON.stringify(customers));
  return { read: Math.round(read), written: count(JSON.stringify({ title: "Disputed", rows })) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
