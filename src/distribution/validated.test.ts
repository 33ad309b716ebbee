import { expect, test } from "vitest";
import { annotate } from "./annotated-record.ts";
import { findMissingValues } from "./view.ts";

const record = annotate(
  { items: [{ price: 12.5 }, { price: 1200 }], name: "Lamp", code: "x", secret: 5, note: "n" },
  {
    "items[].price": { composition: "validated" },
    name: { composition: "validated" },
    code: { composition: "anchored" },
    secret: { composition: "validated", hidden: ["llm-session"] },
    note: { composition: "narrative" },
  },
);

test.each<[string, unknown[]]>([
  ["The Lamp costs 12.5 or 1200.", []],
  ["The Lamp costs 12.50 or 1,200.", [12.5, 1200]],
  ["The lamp costs 112.5 or 12001.", [12.5, 1200, "Lamp"]],
  ["Lamp: -12.5, 1200.5", [12.5, 1200]],
  ["Lamp (12.5) [1200]", []],
])("finds the missing values of %j", (text, missing) => {
  expect(findMissingValues(text, record).map(({ value }) => value)).toEqual(missing);
});

test("reports the path, and skips hidden parts", () => {
  const owner = annotate(
    { owner: { name: "Ann", phone: 1 } },
    { owner: { composition: "validated" }, "owner.phone": { hidden: true } },
  );

  expect(findMissingValues("nobody", owner)).toEqual([{ path: "owner", value: { name: "Ann" } }]);
  expect(findMissingValues('{"name":"Ann"}', owner)).toEqual([]);
});
