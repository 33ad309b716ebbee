import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json, JsonObject } from "../../core/json.ts";
import { parseJsonPath } from "../json-path.ts";
import { type JoinOptions, joinItems, joinKinds } from "./join.ts";
import { anyItem, readAll, streamItems, toTexts } from "./testing.ts";

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

const paths = (names: Names): JoinOptions["on"] =>
  names.map(([left, right]) => ({ left: parseJsonPath(left), right: parseJsonPath(right) }));

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

/** Whether a side has items, and none of them has a field that it is joined by. */
const lacks = (items: readonly Json[], names: Names, side: 0 | 1) =>
  items.length > 0 &&
  names.some((pair) => pair[side] !== "" && !items.some((item) => Object.hasOwn(asObject(item), pair[side])));

describe.each(joinKinds)("a join, %s", (kind) => {
  test.each(["prefix", "left", "right"] as const)(
    "with %s on clashes is what loops over arrays would make",
    async (clash) => {
      await fc.assert(
        fc.asyncProperty(someItems, someItems, someNames, async (left, right, names) => {
          const joining = readAll(
            joinItems(streamItems(left, 1), streamItems(right), { on: paths(names), kind, clash, limit: 1000 }),
          );
          if (lacks(left, names, 0) || lacks(right, names, 1)) {
            await expect(joining).rejects.toMatchObject({ code: "not_found" });
            return;
          }
          const { contents, report } = await joining;
          const { rows, clashes, unmatched } = nestedLoops(left, right, names, kind, clash);

          expect(toTexts(contents)).toEqual(toTexts(rows));
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

  test("stops at the limit and counts the rest", async () => {
    await fc.assert(
      fc.asyncProperty(someItems, someItems, fc.nat({ max: 6 }), async (left, right, limit) => {
        fc.pre(!lacks(left, [["id", "id"]], 0) && !lacks(right, [["id", "id"]], 1));
        const how = { on: paths([["id", "id"]]), kind, clash: "left" } as const;
        const all = await readAll(joinItems(streamItems(left), streamItems(right), { ...how, limit: 1000 }));
        const cut = await readAll(joinItems(streamItems(left), streamItems(right), { ...how, limit }));

        expect(toTexts(cut.contents)).toEqual(toTexts(all.contents).slice(0, limit));
        expect(cut.report.rows_left_out).toBe(all.contents.length - cut.contents.length);
        expect(cut.report.limit_reached).toBe(all.contents.length > limit);
        expect(cut.report.unmatched).toEqual(all.report.unmatched);
      }),
    );
  });
});

test("counts rows beyond the limit without a loop", async () => {
  // Going through all pairs would take hours.
  const side = Array.from({ length: 200_000 }, (_, at) => ({ key: at % 2 }));
  const { contents, report } = await readAll(
    joinItems(streamItems(side), streamItems(side), {
      on: paths([["key", "key"]]),
      kind: "outer",
      clash: "left",
      limit: 3,
    }),
  );

  expect(contents).toHaveLength(3);
  expect(report).toMatchObject({ limit_reached: true, rows_left_out: 2 * 100_000 ** 2 - 3 });
  expect(report.unmatched).toEqual({ left: 0, right: 0 });
});

describe("a side without its key", () => {
  const left = [{ id: 1, owner_id: 7 }];
  const right = [{ id: 7, name: "Ada", team: null }];
  const joined = (one: string, other: string, kind: JoinOptions["kind"] = "inner") =>
    readAll(
      joinItems(streamItems(left), streamItems(right), { on: paths([[one, other]]), kind, clash: "left", limit: 9 }),
    );

  test("fails with the side, the path and the fields", async () => {
    for (const kind of joinKinds) {
      await expect(joined("owner", "id", kind)).rejects.toMatchObject({
        code: "not_found",
        message: "no item on the left has owner: they have: id, owner_id",
      });
      await expect(joined("owner_id", "nmae", kind)).rejects.toThrow(
        "no item on the right has nmae: they have: id, name, team; did you mean name?",
      );
    }
  });

  test("is accepted if the key is null or there are no items", async () => {
    await expect(joined("owner_id", "team")).resolves.toMatchObject({ report: { without_key: { right: 1 } } });
    await expect(
      readAll(
        joinItems(streamItems(left), streamItems([]), {
          on: paths([["id", "x"]]),
          kind: "left",
          clash: "left",
          limit: 9,
        }),
      ),
    ).resolves.toMatchObject({ contents: left });
  });
});

describe("a clash", () => {
  const on = paths([["id", "id"]]);

  test("gives the right field a name that neither side has", async () => {
    const left = [{ id: 1, a: 1, right_a: "mine" }];
    const right = [{ id: 1, a: 2, right_a_2: "theirs" }];
    const { contents } = await readAll(
      joinItems(streamItems(left), streamItems(right), { on, kind: "inner", clash: "prefix", limit: 9 }),
    );

    expect(contents).toEqual([{ id: 1, a: 1, right_a: "mine", right_a_3: 2, right_a_2: "theirs" }]);
  });

  test("fails with the name of the field on request", async () => {
    const made = joinItems(streamItems([{ id: 1, a: 1 }]), streamItems([{ id: 1, a: 2 }]), {
      on,
      kind: "inner",
      clash: "error",
      limit: 9,
    });

    await expect(readAll(made)).rejects.toMatchObject({
      code: "conflict",
      message: 'both sides have "a", with different values',
    });
  });
});
