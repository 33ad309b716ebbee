import fc from "fast-check";
import { expect, test } from "vitest";
import { findReferenceProblem, resolveReference } from "../../config/references.ts";
import { createLiteralText, fillTemplate, formatReferenceText, parseReferenceText } from "./reference-text.ts";
import { refusalOf } from "./testing.ts";

// Texts in which references, escapes and what resembles them are frequent.
const pieces = fc.array(
  fc.constantFrom("$", "{", "}", "env:A", "secret:B", `\${env:A}`, `\${secret:B}`, `$\${`, "-", " ", `\${`, "ä"),
  { maxLength: 12 },
);
const text = pieces.map((parts) => parts.join(""));
const env = { A: "value of A", "secret:B": `\${env:A}` };

test("keeps a publisher's text as it is, even if it looks like a reference", () => {
  fc.assert(
    fc.property(text, (written_) => {
      expect(resolveReference(formatReferenceText(createLiteralText(written_), "x"), env, "x")).toBe(written_);
    }),
  );
});

test("reads the user's text as the configuration does, and refuses it where the configuration would", () => {
  fc.assert(
    fc.property(text, (given) => {
      const isWrong = findReferenceProblem(given) !== undefined;
      let ours: string | undefined;
      try {
        ours = formatReferenceText(parseReferenceText(given, "x"), "x");
      } catch {
        // A $ before a reference can be given by an escape, and cannot be written down again.
        ours = undefined;
      }
      if (isWrong) expect(ours).toBeUndefined();
      else if (ours !== undefined) expect(resolveReference(ours, env, "x")).toBe(resolveReference(given, env, "x"));
    }),
  );
});

test("filling a template makes no reference out of parts", () => {
  fc.assert(
    fc.property(text, text, (before, value) => {
      const filled = fillTemplate(`${before}{v}`, (name) => (name === "v" ? createLiteralText(value) : undefined));
      const plain = resolveReference(formatReferenceText(filled, "x"), env, "x");
      expect(plain.endsWith(value) || plain === `${before}{v}`).toBe(true);
      expect(plain).not.toContain("value of A");
    }),
  );
});

test("variables that are not known stay as they are", () => {
  expect(fillTemplate("{a}-{b}", (name) => (name === "a" ? ["1"] : undefined)).join("")).toBe("1-{b}");
});

test("reports a text that cannot be written", async () => {
  const refusal = await refusalOf(() => formatReferenceText(["$", { reference: "env:A" }], "KEY"));

  expect(refusal.message).toContain('"KEY"');
});
