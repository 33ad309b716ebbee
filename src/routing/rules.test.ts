import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { compileRoutes, type RouteRule } from "./rules.ts";

const facts = () => ({ event: { source: "s", type: "t", data: {} }, tool: {}, actor: {}, ctx: {} });
const compile = (rules: unknown, say = (_problem: string) => {}) => compileRoutes(rules as RouteRule[], say);
const withCode = (code: string, message: RegExp = /./) =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

/** A glob as a regular expression, on short texts. */
function fits(glob: string | undefined, text: string): boolean {
  if (glob === undefined) return true;
  const parts = [...glob].map((char) => ({ "*": ".*", "?": "." })[char] ?? char.replace(/[^a-z]/, "\\$&"));
  return new RegExp(`^${parts.join("")}$`, "s").test(text);
}

describe("the matching rule", () => {
  test("is the first that fits, for any rules and any event", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", ":", "."), minLength: 1, maxLength: 4 });
    const glob = fc.string({ unit: fc.constantFrom("a", "b", ":", ".", "*", "?"), minLength: 1, maxLength: 4 });
    const condition = fc.constantFrom(
      "true",
      "false",
      "event.data.n > 3",
      "event.data.missing == 1",
      "event.type == 'a'",
    );
    const given = fc.record({ source: glob, event: glob, when: condition }, { requiredKeys: [] });
    const holds = (when: string | undefined, type: string, n: number) =>
      when === undefined ||
      when === "true" ||
      (when === "event.data.n > 3" && n > 3) ||
      (when === "event.type == 'a'" && type === "a");

    fc.assert(
      fc.property(
        fc.array(given, { maxLength: 8 }),
        word,
        word,
        fc.integer({ min: 0, max: 6 }),
        (rules, source, type, n) => {
          const found = compile(rules).first(source, type, () => ({
            ...facts(),
            event: { source, type, data: { n } },
          }));

          const at = rules.findIndex(
            (rule) => fits(rule.source, source) && fits(rule.event, type) && holds(rule.when, type, n),
          );
          expect(found?.label).toBe(at < 0 ? undefined : `rule ${at + 1}`);
        },
      ),
      { numRuns: 300 },
    );
  });

  test("does not compute facts without a condition", () => {
    const asked = vi.fn(facts);
    const book = compile([{ event: "other", when: "true" }, { name: "all" }, { when: "true" }]);

    expect(book.first("s", "t", asked)?.label).toBe("all");
    expect(asked).not.toHaveBeenCalled();
  });

  test("is not one whose condition fails, which is reported once per rule", () => {
    const problems: string[] = [];
    const book = compile([{ name: "sums", when: "event.data.sum > 3" }, { name: "rest" }], (problem) =>
      problems.push(problem),
    );

    for (let times = 0; times < 3; times++) expect(book.first("s", "t", facts)?.label).toBe("rest");

    expect(problems).toEqual([expect.stringMatching(/^routing sums: it does not fit t, because its condition fails/)]);
  });

  test("is found even if the facts cannot be computed", () => {
    const problems: string[] = [];
    const book = compile([{ when: "true" }, { name: "rest" }], (problem) => problems.push(problem));

    const found = book.first("s", "t", () => {
      throw new Error("no actor");
    });

    expect(found?.label).toBe("rest");
    expect(problems).toEqual([expect.stringContaining("no actor")]);
  });

  test("of a call cannot change what runs", () => {
    const problems: string[] = [];
    const book = compile([{ name: "all", to: "mail", deadlineMs: 5 }], (problem) => problems.push(problem));

    expect(book.firstForCall("actor:a", "tool_call:x", facts)).toMatchObject({ label: "all", deadlineMs: 5 });
    expect(book.firstForCall("actor:a", "tool_call:x", facts)).not.toHaveProperty("to");
    expect(book.first("s", "t", facts)).toMatchObject({ to: "mail" });
    expect(problems).toEqual([expect.stringMatching(/^routing all: its "to" does not count for tool_call:x/)]);
  });
});

describe("rules are refused", () => {
  test.each<[string, unknown, RegExp]>([
    ["what is no list", {}, /rules/],
    ["what is no rule", [7], /rule 1/],
    ["a misspelt key", [{}, { deadline: 5 }], /rule 2: .*deadline/],
    ["a glob that is none", [{ source: "" }], /rule 1\.source/],
    ["a glob without end", [{ event: "*".repeat(257) }], /rule 1\.event/],
    ["no time at all", [{ deadlineMs: 0 }], /rule 1\.deadlineMs/],
    ["a time beyond timers", [{ deadlineMs: 1e12 }], /rule 1\.deadlineMs/],
    ["eleven tries", [{ retry: { attempts: 11 } }], /rule 1\.retry\.attempts/],
    ["half a try", [{ retry: { attempts: 1.5 } }], /rule 1\.retry\.attempts/],
    ["a pause without end", [{ retry: { attempts: 2, backoffMs: Number.POSITIVE_INFINITY } }], /backoffMs/],
    ["two of one name", [{ name: "x" }, { name: "x" }], /two rules are called "x"/],
    ["two of one name, given by its place", [{ name: "rule 2" }, {}], /two rules are called "rule 2"/],
    ["a call sent elsewhere", [{ event: "tool_call:tool__pay", to: "mine" }], /cannot have "to"/],
    ["a rule about results", [{ event: "tool_result:*" }], /rules do not apply to tool_result:/],
    ["too many", Array.from({ length: 1001 }, () => ({})), /rules/],
    [
      "a getter that throws",
      [Object.defineProperty({}, "to", { enumerable: true, get: () => expect.fail("boo") })],
      /boo/,
    ],
  ])("with invalid_config: %s", (_what, rules, message) => {
    expect(() => compile(rules)).toThrow(withCode("invalid_config", message));
  });

  test.each([
    "event.data.sum >",
    "args.sum > 3",
    "1 + 1",
    "process.exit()",
    "",
    "x".repeat(5000),
    `${"(".repeat(200)}true${")".repeat(200)}`,
  ])("with invalid_expression: %.40s", (when) => {
    expect(() => compile([{}, { name: "bad", when }])).toThrow(withCode("invalid_expression", /^routing bad: /));
  });

  test("bounds the work of hostile conditions", () => {
    const problems: string[] = [];
    const rules = [
      { name: "slow", when: "event.data.list.all(a, event.data.list.all(b, event.data.list.all(c, a + b + c > 0)))" },
      { name: "proto", when: "event.constructor.constructor != null" },
      { name: "stars", event: "*a".repeat(120) },
      { name: "rest" },
    ];
    const data = { list: Array.from({ length: 500 }, () => 1) };

    const found = compile(rules, (problem) => problems.push(problem)).first("s", "a".repeat(119), () => ({
      ...facts(),
      event: { source: "s", type: "t", data },
    }));

    expect(found?.label).toBe("rest");
    expect(problems.map((problem) => problem.split(":", 1)[0])).toEqual(["routing slow", "routing proto"]);
  });
});
