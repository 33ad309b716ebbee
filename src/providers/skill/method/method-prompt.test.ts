import { expect, test } from "vitest";
import { readMethod } from "./method-file.ts";
import { createStepRequest } from "./method-prompt.ts";
import { startProgress } from "./method-run.ts";

test("a request tells the rest of a step's budget only while the step lasts", () => {
  const body = "1. Look.\n   Budget: 3\n";
  const { method } = readMethod({}, body);
  const createText = (results: readonly string[]) =>
    JSON.stringify(
      createStepRequest({ name: "look", method, body, args: {} }, { ...startProgress, results }, [], []).messages,
    );

  expect(createText([])).toContain("Requests left after this one: 16 of 16, 3 in this step.");
  expect(createText(["seen"])).toContain("Requests left after this one: 16 of 16.");
});
