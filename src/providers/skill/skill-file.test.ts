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
  ])("loads with %s", (_what, text) => {
    expect(parseSkillFile(text, "triage").skill).toMatchObject({ name: "triage" });
  });

  test.each([
    ["no front matter", "# Triage\n", "front-matter", 1],
    ["front matter without an end", "---\nname: triage\n", "front-matter", 1],
    ["no description", write("name: triage"), "description", 1],
    ["an unknown type", write("name: triage\ndescription: Sort.\ntype: scirpt"), "type", 4],
    ["YAML that cannot be read", write("name: [triage\ndescription: Sort."), "yaml", 3],
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
    ["an empty body", write("name: triage\ndescription: Sort.", "\n"), "body"],
    ["a body over the limit", write("name: triage\ndescription: Sort.", "line\n".repeat(600)), "body"],
  ])("loads with a finding for %s", (_what, text, rule) => {
    expect(parseSkillFile(text, "triage").skill).toBeDefined();
    expect(rules(text)).toEqual([rule]);
  });

  test("falls back to the folder's name when its own cannot name an action", () => {
    expect(parseSkillFile(write("name: My skill!\ndescription: Sort."), "triage").skill?.name).toBe("triage");
    expect(parseSkillFile(write("name: a b\ndescription: Sort."), "c d").skill).toBeUndefined();
  });

  test("joins the lines of a wrapped sentence and keeps the lines of a list", () => {
    const text = write("name: triage\ndescription: |\n  Sort issues\n  by age. Use when:\n  - asked\n  - late");

    const { skill } = parseSkillFile(text, "triage");
    expect(skill?.description).toBe("Sort issues by age. Use when:\n- asked\n- late");
  });

  test("never throws", () => {
    const part = fc.constantFrom("---", "\n", "name: ", "description: ", "type: llm", ": ", "*a", "&b", "{", "[", "\r");
    const text = fc.array(fc.oneof(part, fc.string())).map((parts) => parts.join(""));

    fc.assert(fc.property(text, (each) => void parseSkillFile(each, "triage")));
  });
});
