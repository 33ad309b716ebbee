import { describe, expect, test } from "vitest";
import { parseSteps, splitToolList } from "./method-steps.ts";

const titles = (body: string) => parseSteps(body).steps.map(({ title }) => title);

describe("the steps of a protocol", () => {
  test("are the items of the first numbered list, with tools and budget of their own", () => {
    const body = [
      "Intro with 1. a number.",
      "",
      "1. **Read it.** Read the file.",
      "   Tools: `file__read`, infospace__*",
      "   Budget: 3",
      "   - a detail",
      "2) Sum it up.",
      "   - Tools: none",
      "",
      "## Notes",
      "1. Not a step.",
    ].join("\n");

    expect(parseSteps(body)).toEqual({
      steps: [
        {
          title: "Read it",
          text: "**Read it.** Read the file.\n   Tools: `file__read`, infospace__*\n   Budget: 3\n   - a detail",
          tools: ["file__read", "infospace__*"],
          budget: 3,
          line: 2,
        },
        { title: "Sum it up", text: "Sum it up.\n   - Tools: none", tools: [], line: 6 },
      ],
      problems: [],
    });
  });

  test("are headings or labels, if there are any", () => {
    const body = "## Step 1: Read\nRead it.\n1. one\n### Detail\nmore\n## STEP 2 — Sum up\nEnd.\n## Results\nText.";
    const { steps } = parseSteps(body);

    expect(steps.map(({ title, text }) => [title, text])).toEqual([
      ["Read", "Read\nRead it.\n1. one\n### Detail\nmore"],
      ["Sum up", "Sum up\nEnd."],
    ]);
    expect(titles("STEP 1: Go\nSTEP 2: Stop\n")).toEqual(["Go", "Stop"]);
  });

  test("go on after a heading with the next number, and skip code", () => {
    expect(titles("## A\n1. One\n## B\n2. Two\n```\n3. Code\n```\n3. Three\n")).toEqual(["One", "Two", "Three"]);
  });

  test("are reported when they are missing or out of order", () => {
    expect(parseSteps("Just do it.").problems).toMatchObject([{ rule: "steps", level: "error", bodyLine: 0 }]);
    expect(parseSteps("1. One\n3. Two\n2. Three").problems).toMatchObject([
      { level: "warning", bodyLine: 1, message: "step 3 is in place 2; it runs as step 2" },
      { level: "warning", bodyLine: 2 },
    ]);
  });

  test("are found in long hostile text in little time", () => {
    for (const text of [
      "1. ".repeat(300_000),
      `step ${"1".repeat(500_000)}`,
      "**".repeat(400_000),
      "#".repeat(900_000),
    ])
      expect(parseSteps(text).steps.length).toBeLessThan(2);
  });
});

test("a list of tools is separated by commas or spaces", () => {
  expect(splitToolList("a, `b`  c,none")).toEqual(["a", "b", "c"]);
});
