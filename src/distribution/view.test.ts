import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../core/json.ts";
import type { Destination } from "./annotated-record.ts";
import { type Annotations, annotate } from "./annotated-record.ts";
import { parseFieldPath } from "./field-path.ts";
import { buildRules } from "./rules.ts";
import { leadsTo, paths, records } from "./testing.ts";
import { ABSENT, applyRules, createPlainView, createTreatment, REDACTED_FIELD } from "./view.ts";

const view = (record: Json, annotations: Annotations, destination: Destination = "ui") =>
  createPlainView(record, buildRules(destination, annotate(record, annotations).annotations));

const hide = (...given: string[]): Annotations => Object.fromEntries(given.map((path) => [path, { hidden: true }]));

describe("a view", () => {
  test.each<[string, Json, string[], Json]>([
    ["a field", { a: 1, b: 2 }, ["a"], { b: 2 }],
    ["a field below", { a: { b: 1, c: 2 } }, ["a.b"], { a: { c: 2 } }],
    ["a whole subtree", { a: { b: { c: 1 } }, d: 1 }, ["a"], { d: 1 }],
    ["a field of every item", { l: [{ p: 1, q: 2 }, { p: 3 }, 4] }, ["l[].p"], { l: [{ q: 2 }, {}, 4] }],
    ["a field of every item of a list that is the record", [{ p: 1, q: 2 }], ["[].p"], [{ q: 2 }]],
    ["the items", { l: [1, 2] }, ["l[]"], { l: [] }],
    ["an item that comes without its list", { l: { p: 1, q: 2 } }, ["l[].p"], { l: { q: 2 } }],
    ["what lies in a list that the path forgot", { l: [[{ p: 1 }]] }, ["l.p"], { l: [[{}]] }],
    ["nothing where nothing is", { a: 1 }, ["b", "a.b", "a[].c", "b[]"], { a: 1 }],
    ["what the prototype has not", { a: 1 }, ["constructor", "__proto__.a", "toString"], { a: 1 }],
    ["a record that is no record", "text", ["a"], "text"],
    ["a record that is an item", "text", ["[]"], null],
  ])("hides %s", (_what, record, hidden, left) => {
    expect(view(record, hide(...hidden))).toEqual(left);
  });

  test("handles fields of any name, also __proto__", () => {
    const record = JSON.parse(
      '{"__proto__": {"secret": 1, "open": 2}, "constructor": {"secret": 3}, "x.y": 4}',
    ) as Json;

    const left = view(record, hide("__proto__.secret", "constructor", '["x.y"]'));

    expect(JSON.stringify(left)).toBe('{"__proto__":{"open":2}}');
    expect(Object.getPrototypeOf(left)).toBe(Object.prototype);
  });

  test("applies the strongest rule of a field", () => {
    const annotations: Annotations = {
      a: { redacted: ["ui"] },
      "a.b": { hidden: ["ui"] },
      c: { hidden: ["ui"], redacted: ["ui"], composition: "anchored" },
      "l[]": { redacted: ["ui"] },
      "l[].p": { hidden: true },
      l: { composition: "validated" },
      '["d"]': { hidden: ["ui"] },
      d: { redacted: ["ui"] },
    };

    expect(view({ a: { b: 1 }, c: 2, l: [{ p: 1 }], d: 3 }, annotations)).toEqual({
      a: REDACTED_FIELD,
      l: [REDACTED_FIELD],
    });
  });

  test("differs by destination, and can address all formatters", () => {
    const annotations: Annotations = {
      a: { hidden: ["llm-session", "formatter:mail"] },
      b: { redacted: ["audit", "formatter:*"] },
      c: { hidden: true },
    };
    const of = (destination: Destination) => view({ a: 1, b: 2, c: 3 }, annotations, destination);

    expect(of("ui")).toEqual({ a: 1, b: 2 });
    expect(of("cache")).toEqual({ a: 1, b: 2 });
    expect(of("peer-response")).toEqual({ a: 1, b: 2 });
    expect(of("llm-session")).toEqual({ b: 2 });
    expect(of("audit")).toEqual({ a: 1, b: REDACTED_FIELD });
    expect(of("formatter:mail")).toEqual({ b: REDACTED_FIELD });
    expect(of("formatter:sms")).toEqual({ a: 1, b: REDACTED_FIELD });
  });

  test("refuses lists nested too deep, but accepts any depth without a rule", () => {
    const deep = JSON.parse(
      `{"l": ${"[".repeat(2_000)}${"]".repeat(2_000)}, "m": ${"[".repeat(2_000)}${"]".repeat(2_000)}}`,
    ) as Json;

    expect(() => view(deep, hide("l.p"))).toThrowError(expect.objectContaining({ code: "invalid_output" }));
    expect(view(deep, hide("l"))).toHaveProperty("m");
  });

  test("is fast for many steps into nested lists", () => {
    const list = JSON.parse(`${"[".repeat(300)}1${"]".repeat(300)}`) as Json;

    expect(view({ l: list }, hide(`l${"[]".repeat(200)}.p`, `l${"[]".repeat(250)}.q`))).toEqual({ l: list });
  });

  test("equals a lookup of each path, for any record and rules", () => {
    const rule = fc.record({
      path: paths,
      kind: fc.constantFrom("hidden", "redacted", "anchored", "validated", "none"),
    });
    fc.assert(
      fc.property(records, fc.array(rule, { maxLength: 6 }), (record, rules) => {
        const annotations = Object.fromEntries(rules.map(({ path, kind }) => [path, annotationOf(kind)]));
        const expected = expectedAt(record, [], annotations);

        const left = applyRules(
          record,
          buildRules("llm-session", annotations),
          createTreatment(() => "T"),
        );

        expect(JSON.stringify(left)).toBe(JSON.stringify(expected === ABSENT ? null : expected));
      }),
      { numRuns: 1_000 },
    );
  });
});

function annotationOf(kind: string): Annotations[string] {
  if (kind === "hidden" || kind === "redacted") return { [kind]: ["llm-session"] };
  return kind === "none" ? {} : { composition: kind as "anchored" };
}

function expectedAt(value: Json, place: readonly (string | number)[], annotations: Annotations): Json | typeof ABSENT {
  const said = Object.entries(annotations)
    .filter(([path]) => leadsTo(parseFieldPath(path) ?? [], place, Array.isArray(value)))
    .map(([, annotation]) => annotation);
  if (said.some(({ hidden }) => hidden !== undefined)) return ABSENT;
  if (said.some(({ redacted }) => redacted !== undefined)) return REDACTED_FIELD;
  if (said.some(({ composition }) => composition === "anchored")) return "T";
  if (Array.isArray(value)) {
    return value.map((item, at) => expectedAt(item, [...place, at], annotations)).filter((item) => item !== ABSENT);
  }
  if (typeof value !== "object" || value === null) return value;
  const left = Object.entries(value).map(([name, part]) => [name, expectedAt(part, [...place, name], annotations)]);
  return Object.fromEntries(left.filter(([, part]) => part !== ABSENT)) as Json;
}
