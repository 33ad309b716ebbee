import assert from "node:assert/strict";
import { once } from "node:events";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { z } from "zod";
import { createA2aEndpoint } from "../src/http/exports.ts";
import { createQuartermaster } from "../src/index.ts";

const token = "a-token-of-the-shop-0123456789";

// #region serve

const warehouse = await createQuartermaster({
  policy: { actors: [{ name: "partner", tools: ["tool__stock"] }] },
});
warehouse.register({
  name: "stock",
  description: "Tell how many pieces are in stock.",
  inputSchema: z.object({ item: z.string() }),
  effect: "read",
  scope: "generalist",
  peerExposed: true,
  handler: ({ item }) => ({ item, pieces: 12 }),
});
const endpoint = await createA2aEndpoint(warehouse, {
  name: "Warehouse",
  description: "Knows what is in stock.",
  version: "1.0.0",
  clients: [{ name: "shop", actor: "partner", token }],
});
const server = serve({ fetch: endpoint.routes.fetch, port: 0, hostname: "127.0.0.1" }) as Server;

// #endregion

await once(server, "listening");
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

// #region delegate

const shop = await createQuartermaster({
  peers: { warehouse: { url, headers: () => ({ authorization: `Bearer ${token}` }) } },
});
const data = { skill: "tool__stock", arguments: { item: "lamp" } };
const outcome = await shop.invoke("agent.peer__warehouse", { data });
console.log(outcome.value); // {"state":"completed","text":"","parts":[{"data":{"item":"lamp","pieces":12},...

// #endregion

assert.equal(outcome.status, "done");
assert.match(outcome.value, /"pieces":12/);
const card = await shop.peers.card("warehouse");
assert.deepEqual(
  card.skills.map(({ id }) => id),
  ["tool__stock"],
);

await shop.close();
await endpoint.close();
server.closeAllConnections();
server.close();
await warehouse.close();
