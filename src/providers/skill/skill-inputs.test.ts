import { describe, expect, test } from "vitest";
import { parseSkillFile } from "./skill-file.ts";
import { readSkillInputs, readSkillOutput } from "./skill-inputs.ts";

const write = (lines: string, body = "Do it with {{input}}.\n") =>
  `---\nname: fetch\ndescription: Do it.\ntype: llm\n${lines}\n---\n${body}`;
const lint = (text: string) =>
  parseSkillFile(text, "fetch").problems.map(({ rule, level, line }) => `${line} ${level} ${rule}`);

describe("the inputs of a skill", () => {
  test("are required unless they say otherwise or have a default", () => {
    const inputs = {
      text: "The text.",
      focus: { type: "string", required: false },
      words: { type: "integer", default: 100 },
      options: { type: "object", properties: { deep: {} }, required: ["deep"] },
      rest: null,
    };
    expect(readSkillInputs({ inputs }, "llm")).toEqual({
      schema: {
        type: "object",
        properties: {
          text: { type: "string", description: "The text." },
          focus: { type: "string" },
          words: { type: "integer", default: 100 },
          options: { type: "object", properties: { deep: {} }, required: ["deep"] },
          rest: { type: "string" },
        },
        required: ["text", "options", "rest"],
        additionalProperties: false,
      },
      problems: [],
    });
  });

  test.each([
    ["llm", { type: "string" }, ["input"]],
    ["code", {}, ["input"]],
    ["method", {}, []],
  ] as const)("are one input for the type %s when none are declared", (type, input, required) => {
    const { schema } = readSkillInputs({}, type);

    expect(schema).toMatchObject({ properties: { input }, required });
  });

  test("are read from the older key schema_hint, with a warning", () => {
    const hint = { target: "$Note or $Collection", limit: "int, optional" };
    const { schema, problems } = readSkillInputs({ schema_hint: hint }, "code");

    expect(schema).toMatchObject({ properties: { target: { description: hint.target } }, required: ["target"] });
    expect(problems).toMatchObject([{ level: "warning", path: ["schema_hint"] }]);
    expect(readSkillInputs({ schema_hint: "a text" }, "llm").schema).toMatchObject({
      properties: { input: { description: "a text" } },
      required: ["input"],
    });
  });

  test.each([
    ["a list", "inputs: [text]", "5 error inputs"],
    ["a name that cannot be a placeholder", "inputs:\n  text: a\n  the text: b", "7 error inputs"],
    ["a number as a schema", "inputs:\n  input: 3", "6 error inputs"],
    ["an unknown type", "inputs:\n  input: { type: txt }", "5 error inputs"],
    ["an endless pattern", "inputs:\n  input: { type: string, pattern: '(' }", "5 error inputs"],
    ["an unusable output schema", "output: { type: object, properties: { a: { type: txt } } }", "5 error output"],
    ["a text as output schema", "output: a list", "5 error output"],
    ["an unknown effect", "effect: reads", "5 error effect"],
    ["a number of tokens below 1", "max_tokens: 0", "5 error max_tokens"],
    ["a temperature over 2", "temperature: 3", "5 error temperature"],
  ])("and other keys are reported with their line: %s", (_what, lines, finding) => {
    expect(lint(write(lines))).toEqual([finding]);
    expect(parseSkillFile(write(lines), "fetch").skill).toBeUndefined();
  });

  test("are named by the placeholders of a prompt; another name is reported with its line", () => {
    const body = "Read {{ text }}.\n\nThen {{txet}} and {{txet}}, {{ not a name }}.\n";
    const { problems, skill } = parseSkillFile(write("inputs: { text: The text. }", body), "fetch");

    expect(problems).toMatchObject([{ rule: "placeholder", level: "warning", line: 9 }]);
    expect(problems[0]?.message).toContain("text");
    expect(skill).toBeDefined();
  });
});

describe("the output of a skill", () => {
  test.each([
    ["a JSON Schema", { type: "object", properties: { a: {} } }],
    ["a JSON Schema of several types", { type: ["string", "null"] }],
    ["a choice", { enum: ["bug", "idea"] }],
    ["any JSON", {}],
  ])("is %s", (_what, output) => {
    expect(readSkillOutput({ output })).toEqual({ schema: output, problems: [] });
  });

  test("is a mapping of properties, also with one that is called type", () => {
    const output = { type: "Bug or idea.", score: { type: "number", required: false } };

    expect(readSkillOutput({ output })?.schema).toEqual({
      type: "object",
      properties: { type: { type: "string", description: "Bug or idea." }, score: { type: "number" } },
      required: ["type"],
      additionalProperties: false,
    });
  });
});
