import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseSkillFile } from "./skill-file.ts";

const write = (frontMatter: string, body = "Do it.\n") => `---\n${frontMatter}\n---\n${body}`;
const rules = (text: string, folder = "triage") => parseSkillFile(text, folder).problems.map(({ rule }) => rule);

describe("a SKILL.md", () => {
  test("has a name, a description and a body, and no findings when it keeps to the format", () => {
    const { skill, problems } = parseSkillFile(write("name: triage\ndescription: Sort issues. Use daily."), "triage");

    expect(problems).toEqual([]);
    expect(skill).toMatchObject({ name: "triage", type: "instruction", description: "Sort issues. Use daily." });
    expect(skill).toMatchObject({ body: "Do it.\n", bodyLine: 5 });
  });

  test.each([
    ["a byte order mark and CRLF", "\uFEFF---\r\nname: triage\r\ndescription: Sort.\r\n---\r\nDo it.\r\n"],
    ["a value with a colon and no quotes", write("name: triage\ndescription: Sort: by age. Use when: asked")],
    ["a value that begins like an alias", write("name: triage\ndescription: *all* issues")],
    ["three dashes inside the body", write("name: triage\ndescription: Sort.", "a\n\n---\n\nb\n")],
    ["no name", write("description: Sort.")],
    ["CRLF and a quoted value at the end", '---\r\nname: triage\r\ndescription: "Sort."\r\n---\r\nDo it.\r\n'],
    ["an empty line before the front matter", `\n${write("name: triage\ndescription: Sort.")}`],
    ["comments before the front matter", `<!-- a -->\n<!-- b\n-- -->\n${write("name: triage\ndescription: Sort.")}`],
    ["lines of a value that are not indented", write("name: triage\ndescription: Sort:\n- by age\nlicense: MIT")],
    ["a quotation mark that is not closed", write('name: triage\ndescription: "Sort: by age\nlicense: MIT')],
    ["another key that is not YAML", write("name: triage\ndescription: Sort.\nargument-hint: [a] [b]")],
    ["a tab to indent", write("name: triage\ndescription: Sort.\nmetadata:\n\ta: b")],
    ["an anchor", write("name: triage\ndescription: Sort.\nmetadata: &all\n  a: b")],
    ["a description that is a list", write("name: triage\ndescription: [Sort., Use daily.]")],
    ["a type of another format", write("name: triage\ndescription: Sort.\ntype: technique")],
  ])("loads with %s", (_what, text) => {
    expect(parseSkillFile(text, "triage").skill).toMatchObject({ name: "triage" });
  });

  test.each([
    ["no front matter", "# Triage\n", "front-matter", 1],
    ["front matter without an end", "---\nname: triage\n", "front-matter", 1],
    ["no description", write("name: triage"), "description", 1],
    ["YAML that cannot be read", write("? [triage\n: {"), "yaml", 3],
    [
      "a key of its type that is not YAML",
      write("name: triage\ndescription: A\ntype: method\ntools: [a] [b]"),
      "yaml",
      5,
    ],
    ["a list as front matter", write("- name"), "front-matter", 2],
    ["very long front matter", write(`description: "${" ".repeat(20_000)}"`), "front-matter", 1],
    ["very many keys", write(Array.from({ length: 200 }, (_, at) => `k${at}: 1`).join("\n")), "front-matter", 1],
  ])("is not loaded with %s", (_what, text, rule, line) => {
    const { skill, problems } = parseSkillFile(text, "triage");

    expect(skill).toBeUndefined();
    expect(problems).toContainEqual(expect.objectContaining({ rule, line, level: "error" }));
  });

  test.each([
    ["a name that is not the folder's", write("name: other\ndescription: Sort."), "name"],
    ["a name with capitals", write("name: Triage\ndescription: Sort."), "name"],
    ["a description over the limit", write(`name: triage\ndescription: ${"word ".repeat(300)}`), "description"],
    ["a misspelt key", write("name: triage\ndescription: Sort.\nlicence: MIT"), "unknown-key"],
    ["metadata that is not text", write("name: triage\ndescription: Sort.\nmetadata: { level: 3 }"), "metadata"],
    ["tools as a list", write("name: triage\ndescription: Sort.\nallowed-tools: [Read]"), "allowed-tools"],
    ["a misspelt type", write("name: triage\ndescription: Sort.\ntype: scirpt"), "type"],
    ["a late start", `\n${write("name: triage\ndescription: Sort.")}`, "front-matter"],
    ["an empty body", write("name: triage\ndescription: Sort.", "\n"), "body"],
    ["a body over the limit", write("name: triage\ndescription: Sort.", "line\n".repeat(600)), "body"],
  ])("loads with a finding for %s", (_what, text, rule) => {
    expect(parseSkillFile(text, "triage").skill).toBeDefined();
    expect(rules(text)).toEqual([rule]);
  });

  test("falls back to the folder's name when its own cannot name an action", () => {
    expect(parseSkillFile(write("name: My skill!\ndescription: Sort."), "triage").skill?.name).toBe("triage");
    expect(parseSkillFile(write("name: Sort Issues!\ndescription: Sort."), "c d").skill?.name).toBe("sort-issues");
    expect(parseSkillFile(write("name: '!'\ndescription: Sort."), "?").skill).toBeUndefined();
  });

  test("keeps what it can read of a front matter that is not YAML, on the right lines", () => {
    const text = write('name: triage\ndescription: "Sort:\n- by age\n- by label\nlicence: MIT');

    const { skill, problems } = parseSkillFile(`<!--\n-->\n${text}`, "triage");
    expect(skill).toMatchObject({ description: "Sort:\n- by age\n- by label", bodyLine: 10 });
    expect(problems).toContainEqual(expect.objectContaining({ rule: "unknown-key", line: 8 }));
  });

  test("joins the lines of a wrapped sentence and keeps the lines of a list", () => {
    const text = write("name: triage\ndescription: |\n  Sort issues\n  by age. Use when:\n  - asked\n  - late");

    const { skill } = parseSkillFile(text, "triage");
    expect(skill?.description).toBe("Sort issues by age. Use when:\n- asked\n- late");
  });

  test.each(["llm", "method"])("of the type %s has a body that is short enough to check", (type) => {
    const text = `---\nname: a\ndescription: Does a.\ntype: ${type}\n---\n${"1. x\n".repeat(20_001)}`;

    const { skill, problems } = parseSkillFile(text, "a");

    expect(skill).toBeUndefined();
    expect(problems).toContainEqual(expect.objectContaining({ rule: "body", level: "error" }));
  });

  test("has at most 100 findings, the errors among them", () => {
    const steps = Array.from({ length: 1000 }, () => "7. x").join("\n");

    const { problems } = parseSkillFile(`---\nname: a\ndescription: Does a.\ntype: method\n---\n${steps}\n`, "a");

    expect(problems).toHaveLength(100);
    expect(problems).toContainEqual(expect.objectContaining({ level: "error", message: "more than 50 steps" }));
  });

  test("never throws", () => {
    const part = fc.constantFrom("---", "\n", "name: ", "description: ", "type: llm", ": ", "*a", "&b", "{", "[", "\r");
    const text = fc.array(fc.oneof(part, fc.string())).map((parts) => parts.join(""));

    fc.assert(fc.property(text, (each) => void parseSkillFile(each, "triage")));
  });
});
