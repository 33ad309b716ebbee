import { canonicalJson, type Json } from "../../core/json.ts";
import { type Path, valueAt } from "../path.ts";
import type { Input } from "../primitives/target.ts";
import type { Derived, Inputs } from "./derived.ts";

export interface Order {
  readonly path: Path;
  readonly direction: "asc" | "desc";
}

export interface Sorting {
  /** What comes first decides first. */
  readonly by: readonly Order[];
  /** Where items go that have nothing, or null, at a path; in both directions. */
  readonly missing: "first" | "last";
}

export type Sorted = {
  readonly input: number;
  readonly dropped: 0;
  /** For each path, how many have nothing or null there. */
  readonly missing: readonly { readonly path: string; readonly count: number }[];
};

/**
 * Stable in both directions: what is equal stays as it was. Ascending, false comes before true, then numbers, then texts
 * by code units, then lists and objects by their canonical JSON. Nothing is dropped. Holds everything until the last has come.
 */
export function sort(inputs: Inputs, { by, missing }: Sorting): Derived<Sorted> {
  const lacking = by.map(() => 0);
  let input = 0;

  async function* items(): AsyncGenerator<Input> {
    const rows: { readonly each: Input; readonly keys: readonly Key[] }[] = [];
    for await (const each of inputs) {
      input++;
      const keys = by.map(({ path }) => sortKey(each.content, path));
      for (const [index, { rank }] of keys.entries()) if (rank === NOTHING) lacking[index] = (lacking[index] ?? 0) + 1;
      rows.push({ each, keys });
    }
    rows.sort((a, b) => {
      for (const [index, { direction }] of by.entries()) {
        const order = compare(a.keys[index] ?? nothing, b.keys[index] ?? nothing, direction, missing);
        if (order !== 0) return order;
      }
      return 0;
    });
    for (const { each } of rows) yield each;
  }

  return {
    items: items(),
    report: () => ({
      input,
      dropped: 0,
      missing: by.flatMap(({ path }, index) => {
        const count = lacking[index] ?? 0;
        return count === 0 ? [] : [{ path: path.text, count }];
      }),
    }),
  };
}

interface Key {
  readonly rank: number;
  readonly value: boolean | number | string;
}

const NOTHING = 0;
const nothing: Key = { rank: NOTHING, value: 0 };

function sortKey(content: Json, path: Path): Key {
  const found = valueAt(content, path);
  if (!found.found || found.value === null) return nothing;
  const { value } = found;
  switch (typeof value) {
    case "boolean":
      return { rank: 1, value };
    case "number":
      return { rank: 2, value };
    case "string":
      return { rank: 3, value };
    default:
      return { rank: 4, value: canonicalJson(value) };
  }
}

function compare(a: Key, b: Key, direction: Order["direction"], missing: Sorting["missing"]): number {
  if (a.rank === NOTHING || b.rank === NOTHING) {
    const order = a.rank === b.rank ? 0 : a.rank === NOTHING ? 1 : -1;
    return missing === "last" ? order : -order;
  }
  const order = a.rank - b.rank || (a.value < b.value ? -1 : a.value > b.value ? 1 : 0);
  return direction === "asc" ? order : -order;
}
