import { expect, test } from "vitest";
import { createHitOrder } from "./hits.ts";
import { action } from "./lexical/testing.ts";

const hit = (name: string, score = 0.5, effect: "read" | "write" = "read") => ({
  action: action(name, { effect }),
  score,
});

const sorted = (hits: ReturnType<typeof hit>[], preferred?: readonly string[]) =>
  hits.sort(createHitOrder(preferred)).map(({ action: { name } }) => name);

test("ranks a better score before a preferred namespace", () => {
  expect(sorted([hit("a__x", 0.4), hit("b__x", 0.5)], ["a"])).toEqual(["b__x", "a__x"]);
});

test("orders equal scores by preferred namespace, effect, length and name", () => {
  const names = ["mcp__git__push", "file__read", "mail__a", "mail__b", "mail__long", "mcpx__y"];
  const hits = () => [...names.map((name) => hit(name)), hit("mail__c", 0.5, "write")];

  expect(sorted(hits(), ["mcp", "file"])).toEqual([
    "mcp__git__push",
    "file__read",
    "mail__a",
    "mail__b",
    "mcpx__y",
    "mail__long",
    "mail__c",
  ]);
  expect(sorted(hits(), ["mcp__git"])[0]).toBe("mcp__git__push");
  expect(sorted(hits())).toEqual([
    "mail__a",
    "mail__b",
    "mcpx__y",
    "file__read",
    "mail__long",
    "mcp__git__push",
    "mail__c",
  ]);
});
