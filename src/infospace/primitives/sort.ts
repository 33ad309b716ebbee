import { canonicalJson, type Json } from "../../core/json.ts";
import { runInSlices, sortSteps } from "../../search/steps.ts";
import { type JsonPath, type PathResult, readJsonPath } from "../json-path.ts";
import { formatKey, getJsonKind } from "../json-preview.ts";
import type { DerivedItems, PrimitiveItem, PrimitiveItems } from "./operation.ts";
import { createPathPresence } from "./operation.ts";

export interface SortOrder {
  readonly path: JsonPath;
  readonly direction: "asc" | "desc";
}

export interface SortOptions {
  /** What comes first decides first. */
  readonly by: readonly SortOrder[];
  /** Where items go that have nothing, or null, at a path; in both directions. */
  readonly missing: "first" | "last";
}

export type SortReport = {
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
export function sortItems(inputs: PrimitiveItems, { by, missing }: SortOptions): DerivedItems<SortReport> {
  const asked = by.map(({ path }) => ({
    path,
    presence: createPathPresence(path, directionHint(path.text)),
    types: new Map<string, number>(),
    lacking: 0,
  }));
  let input = 0;

  function readKey(content: Json, of: (typeof asked)[number]): SortKey {
    const found = readJsonPath(content, of.path);
    of.presence.take(content, found);
    const key = toSortKey(found);
    if (!found.found || key.rank === MISSING_RANK) of.lacking++;
    else {
      const kind = getJsonKind(found.value);
      of.types.set(kind, (of.types.get(kind) ?? 0) + 1);
    }
    return key;
  }

  async function* items(): AsyncGenerator<PrimitiveItem> {
    const rows: { readonly each: PrimitiveItem; readonly keys: readonly SortKey[] }[] = [];
    for await (const each of inputs) {
      input++;
      rows.push({ each, keys: asked.map((of) => readKey(each.content, of)) });
    }
    for (const { presence } of asked) presence.require();
    const sorted = sortSteps(rows, (a, b) => {
      for (const [index, { direction }] of by.entries()) {
        const order = compareKeys(a.keys[index] ?? missingKey, b.keys[index] ?? missingKey, direction, missing);
        if (order !== 0) return order;
      }
      return 0;
    });
    for (const { each } of await runInSlices(sorted)) yield each;
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
  const [one = "", ...others] = paths.map(formatKey);
  return `${[one, ...others].join(" and ")} ${others.length === 0 ? "has" : "have"} values of several types, which are sorted apart: numbers before texts. Make them one with infospace__coerce first.`;
}

/** For a direction that was written into a path. */
function directionHint(text: string): string | undefined {
  const [, sign, path, word] = /^([-+]?)(.*?)(?:\s+(asc|desc)\w*)?$/is.exec(text) ?? [];
  if (!sign && !word) return undefined;
  const isDown = sign === "-" || word?.toLowerCase() === "desc";
  return `The direction is an argument of its own: ${JSON.stringify({ by: path, order: isDown ? "desc" : "asc" })}.`;
}

interface SortKey {
  readonly rank: number;
  readonly value: boolean | number | string;
}

const MISSING_RANK = 0;
const missingKey: SortKey = { rank: MISSING_RANK, value: 0 };

function toSortKey(found: PathResult): SortKey {
  if (!found.found || found.value === null) return missingKey;
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

function compareKeys(
  a: SortKey,
  b: SortKey,
  direction: SortOrder["direction"],
  missing: SortOptions["missing"],
): number {
  if (a.rank === MISSING_RANK || b.rank === MISSING_RANK) {
    const order = a.rank === b.rank ? 0 : a.rank === MISSING_RANK ? 1 : -1;
    return missing === "last" ? order : -order;
  }
  const order = a.rank - b.rank || (a.value < b.value ? -1 : a.value > b.value ? 1 : 0);
  return direction === "asc" ? order : -order;
}
