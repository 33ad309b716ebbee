import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createQuartermaster } from "../../app/quartermaster.ts";
import { systemProcess } from "../../app/system-runtime.ts";
import { checkToolFile } from "./code/tool-file.ts";
import { readUniformResult } from "./code-skill.ts";
import { parseSkillFile } from "./skill-file.ts";
import { skillProvider } from "./skill-provider.ts";
import { createTestTrust, noMethods } from "./testing.ts";

const write = (more: string) => `---\nname: tidy\ndescription: Tidy. Use daily.\ntype: code\n${more}---\nDo it.\n`;
const listProblems = (text: string) =>
  parseSkillFile(text, "tidy").problems.map(({ rule, level, line }) => `${line} ${level} ${rule}`);

describe("the front matter of a code skill", () => {
  test("has inputs, an output, an effect and a timeout", () => {
    const text = write("inputs: { text: A text., limit: { type: integer, default: 5 } }\neffect: read\ntimeout: 5m\n");

    expect(listProblems(text)).toEqual([]);
  });

  test.each([
    ["an unknown effect", "effect: reads\n", "5 error effect"],
    ["a timeout without a unit", "timeout: 30\n", "5 error timeout"],
    ["a timeout over ten minutes", "timeout: 11m\n", "5 error timeout"],
    ["an output that is no schema", "output: a text\n", "5 error output"],
    ["inputs that are no mapping", "inputs: [text]\n", "5 error inputs"],
    ["an input with an unknown type", "inputs: { text: { type: txt } }\n", "5 error inputs"],
    ["an input with a pattern that cannot be used", 'inputs: { text: { pattern: "(" } }\n', "5 error inputs"],
  ])("is refused with %s", (_what, more, problem) => {
    expect(listProblems(write(more))).toEqual([problem]);
    expect(parseSkillFile(write(more), "tidy").skill).toBeUndefined();
  });

  test("may have an older key for its inputs", () => {
    expect(listProblems(write("schema_hint: { text: A text. }\n"))).toEqual(["5 warning inputs"]);
  });

  test.each([
    [["tool.py", "lib/tool.js"], []],
    [["run.py"], ["there is no tool.ts, tool.mjs, tool.js, tool.py beside the SKILL.md"]],
    [["tool.js", "tool.py"], ["tool.js and tool.py exist; keep one of them"]],
  ])("needs one tool file among %j", (files, messages) => {
    const { skill } = parseSkillFile(write(""), "tidy");

    expect(skill && checkToolFile(skill, files).map(({ message }) => message)).toEqual(messages);
  });
});

describe("the result of a tool", () => {
  const read = (result: unknown) => readUniformResult({ name: "tidy" }, result);

  test.each([
    ["a text", "done", "done"],
    ["nothing", null, null],
    ["a record with a status of its own", { status: "failed", job: 3 }, { status: "failed", job: 3 }],
    ["a uniform return", { status: "success", data: [1], value: "one" }, [1]],
    ["a uniform return with a display text only", { status: "success", data: null, value: "one" }, "one"],
    ["a resource", { status: "success", data: null, resource_id: "note__1" }, { resource_id: "note__1" }],
    [
      "a resource and a text",
      { status: "success", data: "a", resource_id: "note__1" },
      { data: "a", resource_id: "note__1" },
    ],
    [
      "a resource and a record",
      { status: "success", data: { a: 1 }, resource_id: "note__1" },
      { a: 1, resource_id: "note__1" },
    ],
  ])("is %s", (_what, result, data) => {
    expect(read(result)).toEqual(data);
  });

  test.each([
    [{ status: "failed", reason: "no\u001b[2J", data: null, value: null }, "the skill tidy failed: no\\u{1b}[2J"],
    [{ status: "failed", data: "too old" }, "the skill tidy failed: too old"],
    [{ status: "failed" }, "the skill tidy failed: it gave no reason"],
  ])("is an error: %j", (result, message) => {
    expect(() => read(result)).toThrow(message);
  });
});

describe("a code skill that cannot run", () => {
  async function open(files: Record<string, string>, pollMs = 100_000) {
    const folder = await mkdtemp(join(tmpdir(), "qm-code-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
    const roots = [{ folder, source: "configured", trusted: true }];
    const programHost = { ...systemProcess, searchPath: "" };
    const common = { trust: createTestTrust(), methods: noMethods, onProblem() {}, pollMs };
    const qm = await createQuartermaster({ providers: [skillProvider({ roots, programHost, ...common })] });
    onTestFinished(qm.close);
    return { qm, folder };
  }

  test.each([
    ["Python is missing", { "tool.py": "" }, "there is no `python3` on the PATH"],
    ["there is no tool file", {}, "there is no tool.ts"],
    ["there are two", { "tool.py": "", "tool.js": "" }, "keep one of them"],
  ])("is listed as unavailable, with the reason: %s", async (_what, files, reason) => {
    const { qm } = await open({ "SKILL.md": write(""), ...files });

    expect(qm.describe("skill__tidy")).toMatchObject({
      metadata: { state: "unavailable", state_reason: expect.stringContaining(reason) },
    });
    expect(await qm.invoke("skill__tidy", { input: 1 })).toMatchObject({ reason: expect.stringContaining(reason) });
  });

  test("can run when its tool file is added, without a change of its SKILL.md", async () => {
    const { qm, folder } = await open({ "SKILL.md": write("") }, 10);
    expect(qm.describe("skill__tidy").metadata).toMatchObject({ state: "unavailable" });

    await writeFile(join(folder, "tool.js"), "export const tool = () => 1;");

    await vi.waitFor(() => expect(qm.describe("skill__tidy").metadata).not.toHaveProperty("state"));
    expect(await qm.invoke("skill__tidy", { input: 1 })).toMatchObject({ status: "done", data: 1 });
  });

  test("is listed as it was when the folder was read, without looking at the disk again", async () => {
    const { qm, folder } = await open({ "SKILL.md": write(""), "tool.js": "" });

    await rm(join(folder, "tool.js"));

    expect(qm.describe("skill__tidy").metadata).not.toHaveProperty("state");
    expect(await qm.invoke("skill__tidy", { input: 1 })).toMatchObject({ error: { code: "conflict" } });
  });

  test("is refused when its front matter changed after it was listed", async () => {
    const { qm, folder } = await open({
      "SKILL.md": write("effect: pure\n"),
      "tool.js": "export const tool = () => 1;",
    });
    await writeFile(join(folder, "SKILL.md"), write("effect: external\n"));

    expect(await qm.invoke("skill__tidy", { input: 1 })).toMatchObject({ error: { code: "conflict" } });
  });
});
