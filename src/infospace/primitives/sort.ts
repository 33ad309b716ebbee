import { z } from "zod";
import { canonicalJson, type Json } from "../../core/json.ts";
import { runInSlices, sortSteps } from "../../search/steps.ts";
import { type JsonPath, type PathResult, parseJsonPath, readJsonPath } from "../json-path.ts";
import { formatKey, getJsonKind } from "../json-preview.ts";
import { createListShape, defineDerivation, type PrimitiveOptions, pathShape } from "./derive.ts";
import { createPathPresence, type PrimitiveItem, type PrimitiveItems, reportMissing } from "./operation.ts";

const orderShape = z.enum(["asc", "desc"]);
const sortKeyShape = z.union([pathShape, z.strictObject({ path: pathShape, order: orderShape.optional() })]);

export const sortAction = (parts: PrimitiveOptions) =>
  defineDerivation(parts, {
    entry: "sort",
    description: "Sort the items by one or several paths, as a new collection. Stable; numbers before texts.",
    fields: {
      by: z
        .union([pathShape, createListShape(sortKeyShape)])
        .describe('A path, or several: ["status", {"path": "price", "order": "desc"}].'),
      order: orderShape.default("asc"),
      missing: z.enum(["last", "first"]).default("last").describe("Where items without a value go."),
    },
    examples: [{ args: { target: "collection__7", by: "price", order: "desc" } }],
    async derive({ target, by, order, missing }, open) {
      const orders = [by].flat().map((each) => {
        const { path, order: direction = order } = typeof each === "string" ? { path: each } : each;
        return { path: parseJsonPath(path), direction };
      });
      return sortItems(await open(target), { by: orders, missing });
    },
  });

export type SortOrder = Readonly<{ path: JsonPath; direction: "asc" | "desc" }>;

/** The first path of `by` counts most. `missing`: the place of items without a value or with null, in both directions. */
export type SortOptions = Readonly<{ by: readonly SortOrder[]; missing: "first" | "last" }>;

/**
 * A stable sort. Ascending: false, true, numbers, texts by code units, then lists and objects by their canonical JSON. Holds
 * all items in memory. Throws `not_found` for a path that no item has.
 */
export function sortItems(inputs: PrimitiveItems, { by, missing }: SortOptions) {
  const keys = by.map(({ path }) => ({
    path,
    presence: createPathPresence(path, directionHint(path.text)),
    types: new Map<string, number>(),
    missing: 0,
  }));
  let input = 0;

  function readKey(content: Json, key: (typeof keys)[number]): SortKey {
    const found = readJsonPath(content, key.path);
    key.presence.take(content, found);
    const value = toSortKey(found);
    if (!found.found || value.rank === MISSING_RANK) key.missing++;
    else {
      const kind = getJsonKind(found.value);
      key.types.set(kind, (key.types.get(kind) ?? 0) + 1);
    }
    return value;
  }

  async function* items(): AsyncGenerator<PrimitiveItem> {
    const rows: { readonly item: PrimitiveItem; readonly values: readonly SortKey[] }[] = [];
    for await (const item of inputs) {
      input++;
      rows.push({ item, values: keys.map((key) => readKey(item.content, key)) });
    }
    for (const { presence } of keys) presence.require();
    const sorted = sortSteps(rows, (a, b) => {
      for (const [index, { direction }] of by.entries()) {
        const order = compareKeys(a.values[index] ?? missingKey, b.values[index] ?? missingKey, direction, missing);
        if (order !== 0) return order;
      }
      return 0;
    });
    for (const { item } of await runInSlices(sorted)) yield item;
  }

  return {
    items: items(),
    report() {
      const mixed = keys.filter(({ types }) => types.size > 1);
      return {
        input,
        dropped: 0,
        missing: reportMissing(keys),
        /** Paths with values of several types. */
        mixed: mixed.map(({ path, types }) => ({ path: path.text, types: Object.fromEntries(types) })),
        ...(mixed.length === 0 ? {} : { warning: mixedWarning(mixed.map(({ path }) => path.text)) }),
      };
    },
  };
}

function mixedWarning(paths: readonly string[]): string {
  const have = paths.length === 1 ? "has" : "have";
  return `${paths.map(formatKey).join(" and ")} ${have} values of several types, which are sorted apart: numbers before texts. Make them one type with infospace__coerce first.`;
}

/** For a path that contains a direction, such as `price desc` or `-price`. */
function directionHint(text: string): string | undefined {
  const [, sign, path, word] = /^([-+]?)(.*?)(?:\s+(asc|desc)\w*)?$/is.exec(text) ?? [];
  if (!sign && !word) return undefined;
  const isDown = sign === "-" || word?.toLowerCase() === "desc";
  return `The direction is an argument of its own: ${JSON.stringify({ by: path, order: isDown ? "desc" : "asc" })}.`;
}

type SortKey = Readonly<{ rank: number; value: boolean | number | string }>;
const MISSING_RANK = 0;
/** The index is the rank. */
const rankedTypes = ["missing", "boolean", "number", "string", "object"];
const missingKey: SortKey = { rank: MISSING_RANK, value: 0 };

function toSortKey(found: PathResult): SortKey {
  if (!found.found || found.value === null) return missingKey;
  const { value } = found;
  return { rank: rankedTypes.indexOf(typeof value), value: typeof value === "object" ? canonicalJson(value) : value };
}

function compareKeys(a: SortKey, b: SortKey, direction: "asc" | "desc", missing: "first" | "last"): number {
  if (a.rank === MISSING_RANK || b.rank === MISSING_RANK) {
    const order = a.rank === b.rank ? 0 : a.rank === MISSING_RANK ? 1 : -1;
    return missing === "last" ? order : -order;
  }
  const order = a.rank - b.rank || (a.value < b.value ? -1 : a.value > b.value ? 1 : 0);
  return direction === "asc" ? order : -order;
}
