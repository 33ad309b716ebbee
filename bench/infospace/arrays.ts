import { AGAIN, FOUND, LEAST, PAGE, type Records, WORD } from "./records.ts";
import type { Side } from "./side.ts";

/** Plain arrays in memory: the minimum cost. */
export function arrays({ orders, customers }: Records): Side {
  const text = JSON.stringify(orders);
  const search = () => orders.filter(({ note }) => note.includes(WORD)).slice(0, FOUND).length;
  return {
    name: "arrays",
    // A result arrives as text.
    create: () => (JSON.parse(text) as readonly unknown[]).length,
    load: () => orders.slice(orders.length / 2, orders.length / 2 + PAGE).length,
    "read all": () => [...orders].length,
    filter: () => orders.filter(({ amount, status }) => amount >= LEAST && status === "open").length,
    join() {
      const byId = new Map(customers.map((customer) => [customer.id, customer]));
      return orders.flatMap((order) => {
        const customer = byId.get(order.customer);
        return customer === undefined ? [] : [{ ...order, region: customer.region }];
      }).length;
    },
    search,
    "search again": () => Array.from({ length: AGAIN }, search).reduce((sum, found) => sum + found, 0),
    close() {},
  };
}
