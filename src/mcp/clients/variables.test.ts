import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { findReferenceProblem, resolveReference } from "../../config/references.ts";
import { clients } from "./clients.ts";
import { type TranslationContext, translateVariables, type VariableForm } from "./variables.ts";

function filling(forms: readonly VariableForm[]): TranslationContext & { readonly unfits: string[] } {
  const unfits: string[] = [];
  return {
    forms,
    home: "/home/ada",
    folder: "/home/me/thing",
    server: "s",
    inputs: new Map(),
    note: () => {},
    reject: (why) => void unfits.push(why),
    unfits,
  };
}

const noisy = fc
  .array(fc.constantFrom("$", "{", "}", "${", "$${", "env:", "A", `\${A}`, `\${env:A}`, "{env:A}", ":-", "x"), {
    maxLength: 12,
  })
  .map((parts) => parts.join(""));

describe("a text in our words", () => {
  test("says the same where a client fills in nothing", () => {
    fc.assert(
      fc.property(noisy, (text) => {
        expect(resolveReference(translateVariables(text, "k", filling([])), {}, "k")).toBe(text);
      }),
    );
  });

  test.each(clients.map(({ name, variables }) => [name, variables] as const))(
    "can always be read, coming from %s, or is told to be unfit",
    (_, forms) => {
      fc.assert(
        fc.property(noisy, (text) => {
          const told = filling(forms);
          const ours = translateVariables(text, "k", told);

          if (told.unfits.length === 0) expect(findReferenceProblem(ours)).toBeUndefined();
        }),
      );
    },
  );

  test.each<[VariableForm, string, string]>([
    ["braced", `a\${B}c`, "aVc"],
    ["bare", "a$B-c", "aV-c"],
    ["named", `a\${env:B}c`, "aVc"],
    ["curly", "a{env:B}c", "aVc"],
    ["braced-default", `a\${B:-x}c`, "aVc"],
    ["place", `\${userHome}\${/}\${workspaceFolderBasename}`, "/home/ada/thing"],
  ])("fills a variable that is written as %s", (form, text, expected) => {
    expect(resolveReference(translateVariables(text, "k", filling([form])), { B: "V" }, "k")).toBe(expected);
  });
});
