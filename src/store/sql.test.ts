import { expect, test } from "vitest";
import { joinQueries, type SqlValue, sql } from "./sql.ts";

test("keeps values apart from the text", () => {
  const query = sql`select ${1} from t where a = ${"x"}`;

  expect(written(query)).toBe("select ? from t where a = ?");
  expect(query.values).toEqual([1, "x"]);
});

test("splices queries in place, with their values in order", () => {
  const inner = sql`b = ${2} and c = ${3}`;

  const query = sql`${sql`select`} * from t where a = ${1} and ${inner} or d = ${4}${sql``}`;

  expect(written(query)).toBe("select * from t where a = ? and b = ? and c = ? or d = ?");
  expect(query.values).toEqual([1, 2, 3, 4]);
});

test("joins queries with a separator, and an empty list to nothing", () => {
  const values: SqlValue[] = ["a", null, new Uint8Array([1])];

  const query = joinQueries(
    values.map((value) => sql`${value}`),
    ", ",
  );

  expect(written(query)).toBe("?, ?, ?");
  expect(query.values).toEqual(values);
  expect(written(joinQueries([], ", "))).toBe("");
});

function written({ parts, values }: ReturnType<typeof sql>): string {
  expect(parts.length).toBe(values.length + 1);
  return parts.join("?");
}
