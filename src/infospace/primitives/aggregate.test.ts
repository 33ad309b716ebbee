import { expect, test } from "vitest";
import { createTestAuthor, testCaller } from "../testing.ts";
import { aggregateAction } from "./aggregate.ts";
import { createTestPrimitives } from "./testing.ts";

const orders = [
  { status: "open", amount: 10, owner: { team: "a" } },
  { status: "paid", amount: 5, owner: { team: "b" } },
  { status: "open", amount: "7" },
  { status: "open" },
];

test("makes a record for each group, and reports values that were not measured", async () => {
  const { run, infospace } = createTestPrimitives(aggregateAction);
  const { id } = await infospace.collect(
    createTestAuthor(testCaller),
    orders.map((content) => ({ content })),
  );
  const answer = await run("aggregate", {
    target: `collection__${id}`,
    by: ["status"],
    sum: ["amount"],
    mean: ["amount"],
    name: "by status",
  });

  expect(infospace.contents(String(answer.handle))).toEqual([
    { status: "open", count: 3, sum_amount: 10, mean_amount: 10 },
    { status: "paid", count: 1, sum_amount: 5, mean_amount: 5 },
  ]);
  expect(answer).toMatchObject({
    kind: "collection",
    name: "by status",
    count: 2,
    input: 4,
    dropped: 0,
    skipped: [
      { field: "sum_amount", missing: 1, other_type: 1 },
      { field: "mean_amount", missing: 1, other_type: 1 },
    ],
  });
  expect(answer).not.toHaveProperty("limit_reached");
});

test("limits the groups, counts all without a path, and rejects unknown paths", async () => {
  const { run } = createTestPrimitives(aggregateAction);

  expect(await run("aggregate", { target: orders, by: ["owner.team"], limit: 1 })).toMatchObject({
    count: 1,
    dropped: 3,
    limit_reached: true,
    missing: [{ path: "owner.team", count: 2 }],
    first: [{ owner_team: "a", count: 1 }],
  });
  expect(await run("aggregate", { target: orders })).toMatchObject({ first: [{ count: 4 }] });
  await expect(run("aggregate", { target: orders, sum: ["ammount"] })).rejects.toMatchObject({
    code: "not_found",
    message: expect.stringContaining("did you mean amount?"),
  });
  await expect(run("aggregate", { target: orders, max: Array(21).fill("amount") })).rejects.toMatchObject({
    code: "invalid_arguments",
  });
});
