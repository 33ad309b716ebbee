import { canonicalJson, type Json } from "../../core/json.ts";
import { paced, sortSteps } from "../../search/steps.ts";
import { kindOf, shownKey } from "../content.ts";
import { type Found, type Path, valueAt } from "../path.ts";
import type { Derived, Input, Inputs } from "./derived.ts";
import { createPresence } from "./fields.ts";

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
  /** The paths with values of several types, and how many of each. */
  readonly mixed: readonly { readonly path: string; readonly types: Readonly<Record<string, number>> }[];
  readonly warning?: string;
};

/**
 * Stable in both directions: what is equal stays as it was. Ascending, false comes before true, then numbers, then texts
 * by code units, then lists and objects by their canonical JSON. Nothing is dropped. Holds everything until the last has come.
 * Throws `not_found` for a path that no item has.
 */
export function sort(inputs: Inputs, { by, missing }: Sorting): Derived<Sorted> {
  const asked = by.map(({ path }) => ({
    path,
    presence: createPresence(path, directionHint(path.text)),
    types: new Map<string, number>(),
    lacking: 0,
  }));
  let input = 0;

  function keyOf(content: Json, of: (typeof asked)[number]): Key {
    const found = valueAt(content, of.path);
    of.presence.take(content, found);
    const key = sortKey(found);
    if (!found.found || key.rank === NOTHING) of.lacking++;
    else {
      const kind = kindOf(found.value);
      of.types.set(kind, (of.types.get(kind) ?? 0) + 1);
    }
    return key;
  }

  async function* items(): AsyncGenerator<Input> {
    const rows: { readonly each: Input; readonly keys: readonly Key[] }[] = [];
    for await (const each of inputs) {
      input++;
      rows.push({ each, keys: asked.map((of) => keyOf(each.content, of)) });
    }
    for (const { presence } of asked) presence.require();
    const sorted = sortSteps(rows, (a, b) => {
      for (const [index, { direction }] of by.entries()) {
        const order = compare(a.keys[index] ?? nothing, b.keys[index] ?? nothing, direction, missing);
        if (order !== 0) return order;
      }
      return 0;
    });
    for (const { each } of await paced(sorted)) yield each;
  }

  return {
    items: items(),
    report() {
      const mixed = asked.filter(({ types }) => types.size > 1);
      return {
        input,
        dropped: 0,
        missing: asked.flatMap(({ path, lacking }) => (lacking === 0 ? [] : [{ path: path.text, count: lacking }])),
        mixed: mixed.map(({ path, types }) => ({ path: path.text, types: Object.fromEntries(types) })),
        ...(mixed.length === 0 ? {} : { warning: mixedWarning(mixed.map(({ path }) => path.text)) }),
      };
    },
  };
}

function mixedWarning(paths: readonly string[]): string {
  const [one = "", ...others] = paths.map(shownKey);
  return `${[one, ...others].join(" and ")} ${others.length === 0 ? "has" : "have"} values of several types, which are sorted apart: numbers before texts. Make them one with infospace__coerce first.`;
}

/** For a direction that was written into a path. */
function directionHint(text: string): string | undefined {
  const [, sign, path, word] = /^([-+]?)(.*?)(?:\s+(asc|desc)\w*)?$/is.exec(text) ?? [];
  if (!sign && !word) return undefined;
  const isDown = sign === "-" || word?.toLowerCase() === "desc";
  return `The direction is an argument of its own: ${JSON.stringify({ by: path, order: isDown ? "desc" : "asc" })}.`;
}

interface Key {
  readonly rank: number;
  readonly value: boolean | number | string;
}

const NOTHING = 0;
const nothing: Key = { rank: NOTHING, value: 0 };

function sortKey(found: Found): Key {
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
