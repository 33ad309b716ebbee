import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { QmError } from "./errors.ts";
import { CALL_VARIABLES, compileCondition, compileOpenCondition } from "./expression.ts";

const facts = {
  tool: { name: "file__delete", tags: ["destructive", "file"], effect: "write" },
  actor: { name: "triage", scope: "user" },
  ctx: { user: { id: "u1", tier: "trusted" }, tenant: "acme" },
  args: { totalCost: 49.5, n: 7, name: "a && b", list: [1, 2, 3], nested: { deep: true } },
};

const holds = (text: string): boolean => compileCondition(text, CALL_VARIABLES).holds(facts);

describe("conditions", () => {
  test.each([
    ["actor.scope != 'admin' && 'destructive' in tool.tags", true],
    ["actor.scope != 'admin' && tool.tags.includes('destructive')", true],
    ["args.totalCost < 50 && ctx.user.tier == 'trusted'", true],
    ["args.n + 1 == 8 && 2 * args.n == 14 && args.n / 2 == 3.5", true],
    ["true || false && false", true],
    ["(true || false) && false", false],
    ["args.name == 'a && b'", true],
    ["args.list.exists(x, x == 2)", true],
    ["args.list.all(x, x > 1)", false],
    ["has(args.missing) || args.nested.deep", true],
    ["!has(args.missing)", true],
    ["tool.name.matches('^file__')", true],
    ["tool.name.startsWith('web')", false],
  ])("%s is %j", (text, expected) => {
    expect(holds(text)).toBe(expected);
  });

  test.each([
    ["1 +", /Unexpected token/],
    ["tool.name", /did not give true or false/],
    ["'text'", /gives string, not true or false/],
    ["nobody.name == 'x'", /Unknown variable: nobody/],
    ["args.missing == 1", /No such key/],
    ["args.name < 3", /no such overload/],
    ["args.constructor == 1", /No such key/],
    ["args.__proto__ == 1", /No such key/],
    ["args.toString() == 'x'", /./],
    ["tool.name.matches('(')", /./],
  ])("%.60s is refused", (text, message) => {
    expect(() => holds(text)).toThrow(QmError);
    expect(() => holds(text)).toThrow(message);
  });

  test("is refused when it is too deep, too large or too long", () => {
    expect(() => holds(`${"(".repeat(300)}true${")".repeat(300)}`)).toThrow(QmError);
    expect(() => holds(`true${" && true".repeat(400)}`)).toThrow(QmError);
    expect(() => holds("x".repeat(5000))).toThrow(/longer than 4096/);
  });

  test("a loop within loops is stopped", () => {
    const many = Array.from({ length: 400 }, (_, index) => index);
    const condition = compileCondition("args.all(a, args.all(b, args.all(c, a + b + c >= 0)))", ["args"]);

    expect(() => condition.holds({ args: many })).toThrow(/took longer than/);
  });

  test("a backtracking pattern is stopped", () => {
    const condition = compileCondition("args.matches('^(a+)+$')", ["args"]);

    expect(() => condition.holds({ args: `${"a".repeat(40)}b` })).toThrow(/took longer than/);
  });

  test("knows which variables it is about", () => {
    expect(compileCondition("args.n > 1 && actor.name == 'x'", CALL_VARIABLES).mentions).toEqual(
      new Set(["args", "actor"]),
    );
  });

  test("an open one takes whatever names it mentions for variables, and is limited like every other", () => {
    const condition = compileOpenCondition("price + 1 > 3 && tags.exists(tag, tag == colour)");

    expect(condition.mentions).toEqual(new Set(["price", "tags", "tag", "colour"]));
    expect(condition.holds({ price: 3, tags: ["red"], colour: "red", tag: "other" })).toBe(true);
    expect(() => condition.holds({ price: 3, tags: ["red"] })).toThrow(/Unknown variable: colour/);
    expect(() => compileOpenCondition("price >")).toThrow(QmError);
    expect(() => compileOpenCondition("__proto__ == 1")).toThrow(QmError);
    expect(() => compileOpenCondition(`${"(".repeat(300)}true${")".repeat(300)}`)).toThrow(QmError);
    expect(compileOpenCondition("x in [1, 'a']").holds({ x: "a" })).toBe(true);
    expect(() => compileCondition("price > 3", ["args"])).toThrow(/Unknown variable: price/);
  });

  test("any text compiles or is refused as invalid_expression", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(..."tool.args()[]{}'\"&|!=<>+-?: 019,x"), maxLength: 60 }),
        (text) => {
          try {
            holds(text);
          } catch (thrown) {
            expect(thrown).toBeInstanceOf(QmError);
          }
        },
      ),
      { numRuns: 2000 },
    );
  });
});

test("the rest of a division knows the numbers of JSON", () => {
  const { holds } = compileOpenCondition("n % 2 == 1 && n % 2.5 == 0.5 && 7 % n == 1");

  expect(holds({ n: 3 })).toBe(true);
});

describe("many at once", () => {
  test("are answered as one by one: true, false, or why not", () => {
    const condition = compileOpenCondition("n > 2");

    const answers = condition.each([{ n: 1 }, { n: 3 }, {}, { n: "x" }]);

    expect(answers.slice(0, 2)).toEqual([false, true]);
    expect(answers.slice(2).map((answer) => (answer as QmError).code)).toEqual([
      "invalid_expression",
      "invalid_expression",
    ]);
  });

  test("do not suffer from the one that never ends", () => {
    const condition = compileOpenCondition("text.matches('^(a+)+$')");
    const endless = { text: `${"a".repeat(60)}!` };

    const answers = condition.each([{ text: "aaa" }, endless, { text: "b" }]);

    expect([answers[0], answers[2]]).toEqual([true, false]);
    expect((answers[1] as QmError).message).toContain("took longer");
  });

  test("are given up where most of them never end", () => {
    const condition = compileOpenCondition("text.matches('^(a+)+$')");
    const endless = { text: `${"a".repeat(60)}!` };

    const answers = condition.each([...Array.from({ length: 50 }, () => endless), { text: "aaa" }]);

    expect(answers.every((answer) => answer instanceof QmError)).toBe(true);
  });
});
