import type { Task } from "./side.ts";

export interface Order {
  readonly id: number;
  readonly customer: string;
  readonly amount: number;
  readonly status: string;
  readonly note: string;
}

export interface Customer {
  readonly id: string;
  readonly region: string;
}

/** The input records, and the expected result of each task. */
export interface Records {
  readonly orders: readonly Order[];
  readonly customers: readonly Customer[];
  readonly expected: Readonly<Record<Task, number>>;
}

/** The filter's threshold, shared by all sides. */
export const LEAST = 900;
/** A word that occurs in ten records. */
export const WORD = "zeppelin";
export const FOUND = 5;
/** How many searches run without a change in between. */
export const AGAIN = 10;
export const PAGE = 20;

const words = "amber birch copper dusk ember flint grove harbor iris jetty kelp lichen meadow north orchard pine".split(
  " ",
);

export function recordsOf(size: number): Records {
  const orders = Array.from({ length: size }, (_, at) => ({
    id: at,
    customer: `c${at % 500}`,
    amount: (at * 7919) % 1000,
    status: at % 3 === 0 ? "open" : "paid",
    note: `${words[at % 16]} ${words[(at * 7) % 16]} ${at % (size / 10) === 0 ? WORD : words[(at * 3) % 16]} ${at}`,
  }));
  const customers = Array.from({ length: 400 }, (_, at) => ({ id: `c${at}`, region: `r${at % 7}` }));
  const filtered = orders.filter(({ amount, status }) => amount >= LEAST && status === "open").length;
  const joined = orders.filter(({ customer }) => Number(customer.slice(1)) < 400).length;
  return {
    orders,
    customers,
    expected: {
      create: size,
      load: PAGE,
      "read all": size,
      filter: filtered,
      join: joined,
      search: FOUND,
      "search again": FOUND * AGAIN,
    },
  };
}
