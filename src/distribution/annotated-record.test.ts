import { describe, expect, test } from "vitest";
import { QmError } from "../core/errors.ts";
import { WithContent } from "../core/handler-result.ts";
import { AnnotatedRecord, type Annotations, annotate } from "./annotated-record.ts";

const wrong: readonly [string, unknown][] = [
  ["an empty path", { "": { hidden: true } }],
  ["a garbled path", { "a..b": { hidden: true } }],
  ["an unknown destination", { a: { hidden: ["llm"] } }],
  ["a formatter without a name", { a: { redacted: ["formatter:"] } }],
  ["a destination that is no word", { a: { hidden: [7] } }],
  ["one destination without a list", { a: { hidden: "ui" } }],
  ["a misspelled key", { a: { hiden: true } }],
  ["an inherited key", { a: { constructor: true } }],
  ["hidden: false", { a: { hidden: false } }],
  ["redacted: true", { a: { redacted: true } }],
  ["an unknown composition", { a: { composition: "anchor" } }],
  ["an empty label", { a: { label: " " } }],
  ["a long label", { a: { label: "x".repeat(201) } }],
  ["a hint that is no text", { a: { temporal: 1 } }],
  ["an annotation that is none", { a: true }],
  ["null", { a: null }],
  ["a list", []],
  ["nothing", undefined],
  ["functions", { a: { label: () => "x" } }],
  ["too many", Object.fromEntries(Array.from({ length: 501 }, (_, at) => [`f${at}`, { hidden: true }]))],
];

test.each(wrong)("%s is refused", (_what, annotations) => {
  expect(() => annotate({}, annotations as Annotations)).toThrowError(
    expect.objectContaining({ code: "invalid_output", hint: expect.any(String) }),
  );
});

test("annotations are a frozen copy", () => {
  const given = { email: { hidden: ["ui" as const] } };

  const { annotations } = annotate({ email: "e" }, given);
  given.email.hidden.pop();

  expect(annotations).toEqual({ email: { hidden: ["ui"] } });
  expect(Object.isFrozen(annotations.email)).toBe(true);
});

test("every destination can be named, and all formatters at once", () => {
  const hidden = ["llm-session", "ui", "cache", "audit", "peer-response", "formatter:mail", "formatter:*"] as const;

  expect(
    annotate({}, { a: { hidden, redacted: [], composition: "narrative", label: "A", temporal: "now" } }),
  ).toBeInstanceOf(AnnotatedRecord);
});

describe("an annotated record that is not the whole result", () => {
  test("is never written out", () => {
    const inside = { items: [annotate({ secret: 1 }, { secret: { hidden: true } })] };

    expect(() => JSON.stringify(inside)).toThrowError(QmError);
  });

  test("cannot be created from another one, or from content", () => {
    const annotated = annotate({}, {});

    expect(() => annotate(annotated, {})).toThrowError(QmError);
    expect(() => annotate(new WithContent({}, { blocks: [] }), {})).toThrowError(QmError);
  });
});
