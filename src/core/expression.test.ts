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
  ])("rejects %.60s", (text, message) => {
    expect(() => holds(text)).toThrow(QmError);
    expect(() => holds(text)).toThrow(message);
  });

  test("rejects an expression that is too deep, too large or too long", () => {
    expect(() => holds(`${"(".repeat(300)}true${")".repeat(300)}`)).toThrow(QmError);
    expect(() => holds(`true${" && true".repeat(400)}`)).toThrow(QmError);
    expect(() => holds("x".repeat(5000))).toThrow(/longer than 4096/);
  });

  test("stops nested loops", () => {
    const many = Array.from({ length: 400 }, (_, index) => index);
    const condition = compileCondition("args.all(a, args.all(b, args.all(c, a + b + c >= 0)))", ["args"]);

    expect(() => condition.holds({ args: many })).toThrow(/could not be evaluated/);
  });

  test("matches a backtracking pattern in linear time", () => {
    const condition = compileCondition("args.matches('^(a+)+$')", ["args"]);

    expect(condition.holds({ args: `${"a".repeat(40)}b` })).toBe(false);
    expect(condition.holds({ args: "aaa" })).toBe(true);
  });

  test("lists the variables it mentions", () => {
    expect(compileCondition("args.n > 1 && actor.name == 'x'", CALL_VARIABLES).mentions).toEqual(
      new Set(["args", "actor"]),
    );
  });

  test("an open condition accepts any variable and has the same limits", () => {
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

  test("any text compiles or throws invalid_expression", () => {
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

test("% works on JSON numbers", () => {
  const { holds } = compileOpenCondition("n % 2 == 1 && n % 2.5 == 0.5 && 7 % n == 1");

  expect(holds({ n: 3 })).toBe(true);
});

describe("the work of an expression", () => {
  const list = Array.from({ length: 3_000 }, (_, index) => index);
  const deep = JSON.parse(`${"[".repeat(40)}${"[1,2,3],".repeat(20_000)}0${"]".repeat(40)}`);
  const big = "ab".repeat(200_000);

  // Without a work limit, each runs for seconds to hours.
  test.each([
    ["loops in loops", "args.l.all(a, args.l.all(b, args.l.all(c, a + b + c >= 0)))"],
    ["a loop that swallows errors", "args.l.all(a, args.l.all(b, args.l.all(c, args.missing || a > b)))"],
    ["a loop in a negation", "!(args.l.exists(a, args.l.exists(b, args.l.exists(c, a + b + c < 0))))"],
    ["lists that grow", "args.l.map(a, args.l.map(b, args.l.map(c, c))).size() > 0"],
    ["comparisons of large values", "args.l.all(a, args.d == args.e)"],
    ["comparisons whose result is not needed", "args.l.all(a, args.d == args.e || true)"],
    ["membership in large values", "args.l.all(a, args.d in args.ds)"],
    ["includes", "args.l.exists(a, args.l.includes(-1))"],
    [
      "texts that double",
      `${"cel.bind(t, t + t, ".repeat(12)}t.contains('x')${")".repeat(12)}`
        .replace("cel.bind(t, t", "cel.bind(t, args.s")
        .replace("+ t,", "+ args.s,"),
    ],
    ["a search for a long text", "args.s.lastIndexOf(args.t) > 0"],
    ["a pattern with many states", "args.l.exists(a, args.s.matches('a.{200}z'))"],
    ["a large pattern of the caller", "args.s.matches(args.p)"],
  ])("%s ends in not_evaluated", (_name, text) => {
    const condition = compileCondition(text, CALL_VARIABLES);
    const args = {
      l: list,
      d: deep,
      e: structuredClone(deep),
      ds: [deep],
      s: big,
      t: `b${"a".repeat(100_000)}`,
      p: "(a|b){1,300}a.{300}z",
    };

    expect(() => condition.holds({ args })).toThrow(expect.objectContaining({ code: "not_evaluated" }));
    // The next evaluation has a budget of its own.
    expect(() => condition.holds({ args: {} })).toThrow(expect.objectContaining({ code: "invalid_expression" }));
  });

  test("is the same each time, even on a busy machine", () => {
    const condition = compileCondition("args.l.all(a, args.l.filter(b, b == a).size() == 1)", CALL_VARIABLES);
    const budgets = Array.from({ length: 3 }, () => ({ left: 1_000_000_000 }));

    for (const budget of budgets) expect(condition.holds({ args: { l: list.slice(0, 200) } }, budget)).toBe(true);

    expect(new Set(budgets.map(({ left }) => left)).size).toBe(1);
    expect(budgets[0]?.left).toBeLessThan(1_000_000_000);
  });

  test("is enough for an ordinary rule over 10,000 items", () => {
    const items = Array.from({ length: 10_000 }, (_, index) => ({ price: index % 90, tags: ["a"] }));
    const condition = compileCondition("args.items.all(i, i.price < 100 && !('secret' in i.tags))", CALL_VARIABLES);

    expect(condition.holds({ args: { items } })).toBe(true);
  });

  test("a pattern that RE2 does not support is rejected when the rule is compiled", () => {
    expect(() => compileCondition("args.a.matches('(?=x)y')", CALL_VARIABLES)).toThrow(/is not an RE2 pattern/);
  });
});
