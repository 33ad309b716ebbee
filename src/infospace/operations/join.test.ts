import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json, JsonObject } from "../../core/json.ts";
import { parsePath } from "../path.ts";
import { type Joining, join, joinKinds } from "./join.ts";
import { anyItem, ended, streamed, texts } from "./testing.ts";

const at = (item: Json, name: string): Json =>
  name === ""
    ? item
    : typeof item === "object" && item !== null && !Array.isArray(item)
      ? (Object.entries(item).find(([key]) => key === name)?.[1] ?? null)
      : null;

const asObject = (item: Json): JsonObject =>
  typeof item === "object" && item !== null && !Array.isArray(item) ? (item as JsonObject) : { value: item };

type Names = readonly (readonly [string, string])[];

interface Expected {
  readonly rows: Json[];
  readonly clashes: Map<string, number>;
  readonly unmatched: { left: number; right: number };
}

/** Every left with every right. */
function nestedLoops(left: readonly Json[], right: readonly Json[], on: Names, kind: string, clash: string): Expected {
  const rows: Json[] = [];
  const clashes = new Map<string, number>();
  const fits = (a: Json, b: Json) =>
    on.every(
      ([one, other]) => at(a, one) !== null && at(b, other) !== null && isDeepStrictEqual(at(a, one), at(b, other)),
    );
  const lonelyLeft = left.filter((item) => !right.some((other) => fits(item, other)));
  const lonelyRight = right.filter((item) => !left.some((other) => fits(other, item)));
  for (const item of left) {
    if (lonelyLeft.includes(item) && !right.some((other) => fits(item, other)) && ["left", "outer"].includes(kind))
      rows.push(asObject(item));
    for (const other of right.filter((each) => fits(item, each))) {
      const row = Object.entries(asObject(item));
      for (const [name, value] of Object.entries(asObject(other))) {
        const mine = Object.entries(asObject(item)).find(([key]) => key === name);
        if (mine === undefined) row.push([name, value]);
        else if (!isDeepStrictEqual(mine[1], value)) {
          clashes.set(name, (clashes.get(name) ?? 0) + 1);
          if (clash === "right") row.push([name, value]);
          if (clash === "prefix") {
            const taken = [...row.map(([key]) => key), ...Object.keys(asObject(other))];
            const free = ["", "_2", "_3", "_4"].map((end) => `right_${name}${end}`).find((key) => !taken.includes(key));
            row.push([free ?? "none", value]);
          }
        }
      }
      rows.push(Object.fromEntries(row));
    }
  }
  if (["right", "outer"].includes(kind)) rows.push(...lonelyRight.map(asObject));
  return { rows, clashes, unmatched: { left: lonelyLeft.length, right: lonelyRight.length } };
}

const paths = (names: Names): Joining["on"] =>
  names.map(([left, right]) => ({ left: parsePath(left), right: parsePath(right) }));

const someItems = fc.array(anyItem, { maxLength: 7 });
const someNames = fc.constantFrom<Names>(
  [["id", "id"]],
  [["a", "id"]],
  [
    ["a", "a"],
    ["n", "n"],
  ],
  [["__proto__", "__proto__"]],
  [["", ""]],
);

const repeatedIn = (items: readonly Json[], names: readonly string[]) => {
  const keys = items.map((item) => names.map((name) => at(item, name))).filter((key) => !key.includes(null));
  return keys.filter((key, index) => keys.slice(0, index).some((other) => isDeepStrictEqual(key, other))).length;
};

describe.each(joinKinds)("a join, %s", (kind) => {
  test.each(["prefix", "left", "right"] as const)(
    "with %s on clashes is what loops over arrays would make",
    async (clash) => {
      await fc.assert(
        fc.asyncProperty(someItems, someItems, someNames, async (left, right, names) => {
          const { contents, report } = await ended(
            join(streamed(left, 1), streamed(right), { on: paths(names), kind, clash, limit: 1000 }),
          );
          const { rows, clashes, unmatched } = nestedLoops(left, right, names, kind, clash);

          expect(texts(contents)).toEqual(texts(rows));
          expect(new Map(report.clashes.map(({ field, rows: count }) => [field, count]))).toEqual(clashes);
          expect(report).toMatchObject({
            input: { left: left.length, right: right.length },
            unmatched,
            dropped: {
              left: ["left", "outer"].includes(kind) ? 0 : unmatched.left,
              right: ["right", "outer"].includes(kind) ? 0 : unmatched.right,
            },
            without_key: {
              left: left.filter((item) => names.some(([name]) => at(item, name) === null)).length,
              right: right.filter((item) => names.some(([, name]) => at(item, name) === null)).length,
            },
            repeated_keys: {
              left: repeatedIn(
                left,
                names.map(([name]) => name),
              ),
              right: repeatedIn(
                right,
                names.map(([, name]) => name),
              ),
            },
            limit_reached: false,
            rows_left_out: 0,
          });
        }),
        { numRuns: 150 },
      );
    },
  );

  test("stops making rows at the limit, and counts on", async () => {
    await fc.assert(
      fc.asyncProperty(someItems, someItems, fc.nat({ max: 6 }), async (left, right, limit) => {
        const how = { on: paths([["id", "id"]]), kind, clash: "left" } as const;
        const all = await ended(join(streamed(left), streamed(right), { ...how, limit: 1000 }));
        const cut = await ended(join(streamed(left), streamed(right), { ...how, limit }));

        expect(texts(cut.contents)).toEqual(texts(all.contents).slice(0, limit));
        expect(cut.report.rows_left_out).toBe(all.contents.length - cut.contents.length);
        expect(cut.report.limit_reached).toBe(all.contents.length > limit);
        expect(cut.report.unmatched).toEqual(all.report.unmatched);
      }),
    );
  });
});

describe("a clash", () => {
  const on = paths([["id", "id"]]);

  test("gives the right's field a name that neither side has", async () => {
    const left = [{ id: 1, a: 1, right_a: "mine" }];
    const right = [{ id: 1, a: 2, right_a_2: "theirs" }];
    const { contents } = await ended(
      join(streamed(left), streamed(right), { on, kind: "inner", clash: "prefix", limit: 9 }),
    );

    expect(contents).toEqual([{ id: 1, a: 1, right_a: "mine", right_a_3: 2, right_a_2: "theirs" }]);
  });

  test("is an error where that is asked for, which names the field", async () => {
    const made = join(streamed([{ id: 1, a: 1 }]), streamed([{ id: 1, a: 2 }]), {
      on,
      kind: "inner",
      clash: "error",
      limit: 9,
    });

    await expect(ended(made)).rejects.toMatchObject({
      code: "conflict",
      message: 'both sides have "a", with different values',
    });
  });
});
