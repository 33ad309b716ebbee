import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { createScriptedModel } from "../../../test/fixtures/scripted-method.ts";
import { findCoreSkills } from "../../app/core-skills.ts";
import { createQuartermaster } from "../../app/quartermaster.ts";
import { atTerminal, cleanUp, createTestFolder, qm } from "../testing.ts";

afterAll(cleanUp);

const TRIAGE = "---\nname: triage\ndescription: Sort issues by age. Use daily.\n---\nStart with the oldest.\n";

async function createSkills(skills: Record<string, string>, source = "configured"): Promise<string> {
  const isProject = source === "project";
  const folder = await createTestFolder({ "quartermaster.yaml": isProject ? "{}" : "skills: { folders: [skills] }\n" });
  for (const [name, content] of Object.entries(skills)) {
    const path = join(folder, isProject ? ".agents/skills" : "skills", name);
    await mkdir(path, { recursive: true });
    await writeFile(join(path, "SKILL.md"), content);
  }
  return folder;
}

describe("qm skills", () => {
  test("lists skills, and warns of files that cannot be used", async () => {
    const folder = await createSkills({ triage: TRIAGE, broken: "# no front matter\n" });

    const { code, out, err } = await qm(folder, ["skills", "list"]);

    expect(code).toBe(0);
    expect(out).toMatch(/^triage +instruction +configured +trusted +[0-9a-f]{12} +Sort issues by age\.$/m);
    expect(err).toMatch(/skills\/broken\/SKILL\.md:1 error front-matter:/);
  });

  test("says what to do when there are no skills but those of the core", async () => {
    const { out } = await qm(await createTestFolder({ "quartermaster.yaml": "{}" }), ["skills", "list"]);

    expect(out).toContain("`qm skills new <name>` creates one");
  });

  test("lists the core skills, says why they cannot be used, and neither checks nor changes them by default", async () => {
    const folder = await createTestFolder({ "quartermaster.yaml": "{}" });

    const { out } = await qm(folder, ["skills", "list"]);
    const described = await qm(folder, ["describe", "skill__summarize"]);
    const created = await qm(folder, ["skills", "new", "release-notes"]);
    const linted = await qm(folder, ["skills", "lint"]);
    const core = await qm(folder, ["skills", "lint", findCoreSkills().folder]);

    expect(out).toMatch(/^extract +llm +core +trusted +[0-9a-f]{12} +Extract/m);
    expect(out).toMatch(/^summarize +llm +core +trusted +[0-9a-f]{12} +Summarize/m);
    expect(described.out).toMatch(/^state +unavailable: no language model is configured/m);
    expect(created.out).toContain(join(folder, ".agents/skills/release-notes/SKILL.md"));
    expect(linted.out).toMatch(/^1 skill, /m);
    expect(core).toMatchObject({ code: 0, out: "2 skills, no findings.\n" });
  });

  test("lints a prompt: an unknown placeholder, a bad output schema and a bad effect, each with its line", async () => {
    const ask = "---\nname: ask\ndescription: Ask it.\ntype: llm\n";
    const folder = await createSkills({
      ask: `${ask}---\n\nSay {{inputs}}.\n`,
      ask2: `${ask.replace("ask", "ask2")}output: { type: objekt, properties: {} }\neffect: reads\n---\nSay {{input}}.\n`,
    });

    const { out } = await qm(folder, ["skills", "lint"]);

    expect(out).toMatch(/ask\/SKILL\.md:7 warning placeholder: \{\{inputs\}\} is not one of the inputs.*input/);
    expect(out).toMatch(/ask2\/SKILL\.md:5 error output: .*unknown type "objekt"/);
    expect(out).toMatch(/ask2\/SKILL\.md:6 error effect: expected .*read/);
  });

  test("shows a skill with its files and digest, and suggests a name for an unknown one", async () => {
    const folder = await createSkills({ triage: TRIAGE });

    const shown = JSON.parse((await qm(folder, ["skills", "show", "triage", "--json"])).out);
    const byAction = await qm(folder, ["skills", "show", "skill__triage", "--json"]);
    const unknown = await qm(folder, ["skills", "show", "triag"]);

    expect(shown).toMatchObject({
      name: "triage",
      trust: "trusted",
      files: [{ path: "SKILL.md", bytes: TRIAGE.length }],
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(JSON.parse(byAction.out)).toEqual(shown);
    expect(unknown.err).toContain("did you mean triage?");
  });

  test("creates a skill in the first folder that belongs to no world", async () => {
    const folder = await createTestFolder({
      "quartermaster.yaml": "worlds: { sea: { skills: [sea] } }\nskills: { folders: [skills] }\n",
    });

    const { out } = await qm(folder, ["skills", "new", "triage"]);

    expect(out).toContain(`Wrote ${join(folder, "skills/triage/SKILL.md")}.`);
    const inWorld = await qm(folder, ["skills", "new", "dive", "--folder", "sea", "--type", "llm"]);
    expect(inWorld.out).toContain("Run it with `qm invoke skill__sea__dive --arg input=text`.");
  });

  test("escapes terminal codes in a skill's name, description, body and files", async () => {
    const evil = `---\nname: "ev\\e[1mil"\ndescription: "a \\e[2J b"\n---\n\u001B]0;owned\u0007\n`;
    const folder = await createSkills({ evil }, "project");
    await writeFile(join(folder, ".agents/skills/evil/\u001B[31mred.md"), "");
    const outputs = [
      await qm(folder, ["skills", "list"]),
      await qm(folder, ["skills", "show", "evil"]),
      await qm(folder, ["skills", "lint"]),
      await qm(folder, ["skills", "trust"]),
      await qm(folder, ["skills", "trust", "evil", "--no-color"], atTerminal("n\n")),
    ];

    for (const { out, err } of outputs)
      for (const character of ["\u001B", "\u0007"]) expect(out + err).not.toContain(character);
    expect(outputs[1]?.out).toContain("\\u{1b}");
  });

  test("lints with file, line and rule, counts findings by rule and exits with 1", async () => {
    const folder = await createSkills({ triage: TRIAGE, Bad: TRIAGE.replace("Use daily.", "See [a](a.md).") });

    const found = await qm(folder, ["skills", "lint"]);
    const clean = await qm(folder, ["skills", "lint", "skills/triage"]);

    expect(found.code).toBe(1);
    expect(found.out).toContain('skills/Bad/SKILL.md:2 warning name: "triage" is not the folder\'s name, "Bad"');
    expect(found.out).toMatch(/2 skills|1 skill, .*name 1/);
    expect(clean).toMatchObject({ code: 0, out: "1 skill, no findings.\n" });
  });

  test("creates a skill whose only finding is its placeholder, and overwrites nothing", async () => {
    const folder = await createSkills({});

    const created = await qm(folder, ["skills", "new", "release-notes"]);
    const linted = await qm(folder, ["skills", "lint"]);
    const again = await qm(folder, ["skills", "new", "release-notes"]);

    expect(created.code).toBe(0);
    expect(await readFile(join(folder, "skills/release-notes/SKILL.md"), "utf8")).toContain("name: release-notes");
    expect(linted.out).toContain('SKILL.md:3 warning description: still ends with the placeholder "Use when …"');
    expect(linted.out).toContain("1 skill, 1 finding: description 1.");
    expect(again).toMatchObject({ code: 1, err: expect.stringContaining("nothing was changed") });
  });

  test.each(["Bad_Name", "../outside", "a b"])("refuses to create a skill called %j", async (name) => {
    const { code, err } = await qm(await createSkills({}), ["skills", "new", name]);

    expect(code).toBe(2);
    expect(err).toContain("release-notes");
  });

  test.each([
    [["--type", "instruction"], ["SKILL.md"]],
    [["--type", "llm"], ["SKILL.md"]],
    [
      ["--type", "code"],
      ["SKILL.md", "tool.mjs"],
    ],
    [
      ["--type", "code", "--language", "py"],
      ["SKILL.md", "tool.py"],
    ],
    [["--type", "method"], ["SKILL.md"]],
  ])("creates a skill with %j whose only finding is its placeholder", async (options, files) => {
    const folder = await createSkills({});

    const { code } = await qm(folder, ["skills", "new", "count", ...options]);

    expect(code).toBe(0);
    expect((await readdir(join(folder, "skills/count"))).sort()).toEqual(files);
    expect((await qm(folder, ["skills", "lint"])).out).toContain("1 skill, 1 finding: description 1.");
  });

  test("creates skills that run as they are", async () => {
    const url = await serveChat();
    const model = `{ provider: openai-compatible, base_url: "${url}", model: tiny }`;
    const folder = await createTestFolder({
      "quartermaster.yaml": `models: { default: ${model} }\nskills: { folders: [skills] }\n`,
    });
    const run = async (name: string, ...options: readonly string[]) => {
      const { out } = await qm(folder, ["skills", "new", name, "--folder", "skills", ...options]);
      const argv = /Run it with `qm (.*)`/.exec(out)?.[1]?.split(" ") ?? [];
      return (await qm(folder, argv)).out;
    };

    await mkdir(join(folder, "skills"));
    expect(await run("steps")).toContain("1. The first step.");
    expect(await run("prompt", "--type", "llm")).toContain("an answer");
    expect(JSON.parse(await run("program", "--type", "code"))).toEqual({ words: 1 });
    expect(JSON.parse(await run("script", "--type", "code", "--language", "py"))).toEqual({ words: 1 });
    expect(JSON.parse(await run("protocol", "--type", "method"))).toMatchObject({
      outcome: "success",
      exports: { note: "note__1" },
      requests: 4,
    });
  });

  test("names the file of a program with a syntax error", async () => {
    const folder = await createSkills({ count: TRIAGE.replace("name: triage", "name: count\ntype: code") });
    await writeFile(join(folder, "skills/count/tool.mjs"), "export function tool({ words");

    const { err } = await qm(folder, ["invoke", "skill__count", "--arg", "input=a"]);

    expect(err).toMatch(/the skill count failed: SyntaxError: .* in tool\.mjs$/m);
  });

  test("refuses a language for a skill that is not code", async () => {
    const options = ["skills", "new", "count", "--language", "py"];

    expect(await qm(await createSkills({}), options)).toMatchObject({ code: 2 });
  });
});

/** A model that answers with a text, and carries out the method that `qm skills new` creates. */
async function serveChat(): Promise<string> {
  const calls = [
    ["finish_step", { result: "A note is wanted." }],
    ["infospace__create-note", { value: "text" }],
    ["set_export", { name: "note", value: "note__1" }],
    ["end_method", { outcome: "success" }],
  ] as const;
  let next = 0;
  const server = createServer(async (request, response) => {
    const { tools } = JSON.parse(Buffer.concat(await request.toArray()).toString());
    const [name, args] = calls[next] ?? [];
    if (tools !== undefined) next++;
    const call = { id: `c${next}`, type: "function", function: { name, arguments: JSON.stringify(args) } };
    const said = tools === undefined ? { content: "an answer" } : { content: "", tool_calls: [call] };
    const choice = { index: 0, message: { role: "assistant", ...said }, finish_reason: "stop" };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ id: "1", object: "chat.completion", created: 1, model: "tiny", choices: [choice] }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

describe("qm skills trust", () => {
  const trust = (folder: string, argv: readonly string[], typed?: string) =>
    qm(folder, ["skills", "trust", ...argv], typed === undefined ? {} : atTerminal(typed));
  const listState = async (folder: string) =>
    JSON.parse((await qm(folder, ["skills", "list", "--json"])).out).skills.find(
      ({ name }: { name: string }) => name === "triage",
    ).trust;

  test("trusts a skill of a project folder after a person said yes, and calls need no approval then", async () => {
    const folder = await createSkills({ triage: TRIAGE }, "project");
    const waiting = await qm(folder, ["invoke", "skill__triage"]);
    const explained = await qm(folder, ["explain", "skill__triage"]);
    const checked = await qm(folder, ["preflight", "skill__triage"]);
    const listed = await qm(folder, ["skills", "list"]);

    const no = await trust(folder, ["triage"], "n\n");
    const stateAfterNo = await listState(folder);
    const yes = await trust(folder, ["triage"], "y\n");
    const done = await qm(folder, ["invoke", "skill__triage"]);

    expect(waiting.code).not.toBe(0);
    expect(waiting.err).toContain("No person has accepted it yet");
    expect(explained.out).toContain("To trust the skill, run `qm skills trust triage`.");
    expect(explained.out).not.toContain("To change that");
    expect(checked.out).toMatch(/needs_approval +qm skills trust triage$/m);
    expect(listed.out).toContain("`qm skills trust` shows the skills that a person must decide on.");
    expect([no.code === 0, stateAfterNo]).toEqual([false, "new"]);
    expect(yes).toMatchObject({
      code: 0,
      out: expect.stringMatching(/digest {2}[0-9a-f]{64}\n {2}SKILL\.md, \d+ bytes/),
    });
    expect(yes.out).toContain("Start with the oldest.");
    expect(done).toMatchObject({ code: 0, out: expect.stringContaining("Start with the oldest.") });
  });

  test("shows what changed, with the digests before and after", async () => {
    const folder = await createSkills({ triage: TRIAGE }, "project");
    await trust(folder, ["triage"], "y\n");
    const before = JSON.parse((await qm(folder, ["skills", "show", "triage", "--json"])).out).digest;
    await writeFile(join(folder, ".agents/skills/triage/SKILL.md"), TRIAGE.replace("oldest", "newest"));
    await writeFile(join(folder, ".agents/skills/triage/new.md"), "");

    const refused = await qm(folder, ["invoke", "skill__triage"]);
    const waiting = await trust(folder, []);
    const shown = await trust(folder, ["triage"], "n\n");
    const listed = await qm(folder, ["describe", "skill__triage", "--json"]);
    const preflight = await qm(folder, ["preflight", "skill__triage"]);
    const explained = await qm(folder, ["explain", "skill__triage"]);
    const doctor = await qm(folder, ["doctor"]);

    expect(preflight).toMatchObject({ code: 12, out: expect.stringContaining("qm skills trust triage") });
    expect(refused.err + refused.out).toContain("`qm skills trust triage`");
    expect(waiting.out).toMatch(/^triage +changed +its files changed/m);
    expect(shown.out).toContain(`before  ${before}, by `);
    expect(shown.out).toMatch(/SKILL\.md, \d+ bytes, changed\n {2}new\.md, 0 bytes, added/);
    expect(JSON.parse(listed.out).metadata).toMatchObject({
      state: "quarantined",
      source: "project",
      type: "instruction",
    });
    expect(doctor.out).toMatch(/^warn +skill +triage: its files changed.*\n +qm skills trust triage$/m);
    expect(explained.out).toMatch(/It cannot be used now\. quarantined: its files.*`qm skills trust triage`/);
    expect(await listState(folder)).toBe("changed");
  });

  test("shows the program of a code skill", async () => {
    const folder = await createSkills({ count: TRIAGE.replace("name: triage", "name: count\ntype: code") }, "project");
    await writeFile(join(folder, ".agents/skills/count/tool.mjs"), "export const tool = () => 42;\n");

    expect((await trust(folder, ["count"], "n\n")).out).toContain("\n  export const tool = () => 42;\n");
    await qm(folder, ["invoke", "skill__count", "--arg", "input=a"]);
    const [{ id, files }] = JSON.parse((await qm(folder, ["approvals", "list", "--json"])).out).approvals;
    expect(files).toMatchObject([{ path: "SKILL.md" }, { path: "tool.mjs", size: 30 }]);
    expect((await qm(folder, ["approvals", "show", id, "--full"])).out).toContain("export const tool = () => 42;");
  });

  test("shows changed files as a diff, new ones whole and unchanged ones not at all", async () => {
    const folder = await createSkills({ triage: TRIAGE }, "project");
    const write = (name: string, text: string) => writeFile(join(folder, ".agents/skills/triage", name), text);
    const long = Array.from({ length: 100 }, (_, at) => `line ${at}`).join("\n");
    await write("long.md", long);
    await write("same.md", "this stays");
    await trust(folder, ["triage"], "y\n");
    await write("long.md", long.replace("line 50", "line 50 \u202Esecretly"));
    await write("new.md", "this is new");

    const shown = await trust(folder, ["triage"], "y\n");
    const json = await trust(folder, ["triage", "--json"], "y\n");

    expect(shown.out).toContain(
      "  … 47 unchanged lines\n    line 47\n    line 48\n    line 49\n  - line 50\n  + line 50 \\u{202e}secretly\n    line 51",
    );
    expect(shown.out).toContain("Careful: it contains invisible or control characters: U+202E");
    expect(shown.out).toContain("  this is new");
    expect(shown.out).not.toContain("same.md, 10 bytes, SHA-256");
    expect(JSON.parse(json.out)).toMatchObject({ trust: "trusted" });
  });

  test("needs a person: without a terminal, --yes alone trusts nothing", async () => {
    const folder = await createSkills({ triage: TRIAGE }, "project");

    for (const argv of [["triage"], ["triage", "--yes"], ["triage", "--yes", "--json"]])
      expect(await trust(folder, argv)).toMatchObject({ code: 3 });
    expect((await trust(folder, ["triage"])).err).toContain("QM_APPROVER_TOKEN");
    expect(await listState(folder)).toBe("new");
  });

  test("revokes: calls are refused until the skill is trusted again", async () => {
    const folder = await createSkills({ triage: TRIAGE }, "project");
    await trust(folder, ["triage"], "y\n");

    const revoked = await trust(folder, ["triage", "--revoke", "--yes", "--json"]);
    const refused = await qm(folder, ["invoke", "skill__triage", "--json"]);
    const explained = await qm(folder, ["explain", "skill__triage"]);
    const events = await qm(folder, ["events", "--json"]);

    expect(JSON.parse(revoked.out)).toMatchObject({ name: "triage", trust: "revoked" });
    expect(JSON.parse(refused.out)).toMatchObject({ status: "refused", error: { code: "quarantined" } });
    expect(explained.out).toContain("It cannot be used now. quarantined: a person no longer trusts it.");
    expect(events.out).toContain("skill.trusted");
    expect(events.out).toContain("skill.withheld");
  });

  test("says that a skill of a configured folder needs no trust, and cannot lose it", async () => {
    const folder = await createSkills({ triage: TRIAGE });

    expect((await trust(folder, ["triage"])).out).toContain("trusted because of where it is (configured)");
    expect(await trust(folder, ["triage", "--revoke", "--yes"])).toMatchObject({ code: 1 });
    expect((await trust(folder, [])).out).toBe("All skills are trusted.\n");
    expect((await trust(folder, ["--revoke"])).code).toBe(2);
  });
});

const METHOD = `---
name: errand
description: Runs an errand.
type: method
tools: [skill__other]
outcomes: [success]
exports: [receipt]
accept: ["exports.receit != null", "outcome == 'succes'"]
---
1. **Go.** Go there, or end with outcome \`absent\`.
3. **Pay.** Pay it.
   Tools: tool__pay, file__*
   Budget: 2
`;

describe("qm skills with a method", () => {
  test("shows its steps with their tools", async () => {
    const folder = await createSkills({ errand: METHOD });

    const { out } = await qm(folder, ["skills", "show", "errand"], { columns: 120 });
    const { method } = JSON.parse((await qm(folder, ["skills", "show", "errand", "--json"])).out);

    expect(out).toMatch(/^1 +Go +skill__other$/m);
    expect(out).toMatch(/^2 +Pay +tool__pay, file__\*$/m);
    expect(method).toMatchObject({
      outcomes: ["success", "failed"],
      budget: 16,
      steps: [{ title: "Go" }, { budget: 2 }],
    });
  });

  test("finds what the protocol names and does not declare, with lines", async () => {
    const other = METHOD.replace("name: errand", "name: other");
    const folder = await createSkills({ errand: METHOD, other });
    const bare =
      "---\nname: bare\ndescription: Does it.\ntype: method\naccept: outcome ==\nbudget: 0\n---\nJust do it.\n";
    await mkdir(join(folder, "skills/bare"));
    await writeFile(join(folder, "skills/bare/SKILL.md"), bare);

    const { code, out } = await qm(folder, ["skills", "lint"], { columns: 200 });

    expect(code).toBe(1);
    expect(out).toMatch(/errand\/SKILL\.md:8 warning accept: exports\.receit is not an export; did you mean receipt\?/);
    expect(out).toMatch(/errand\/SKILL\.md:8 warning accept: "?succes"? is not an outcome/);
    expect(out).toMatch(/errand\/SKILL\.md:10 warning outcomes: "?absent"? is not an outcome/);
    expect(out).toMatch(/errand\/SKILL\.md:11 warning steps: step 3 is in place 2/);
    expect(out).toMatch(/errand\/SKILL\.md:5 warning tools: .* names the method skill__other/);
    expect(out).toMatch(/bare\/SKILL\.md:5 error accept:/);
    expect(out).toMatch(/bare\/SKILL\.md:6 error budget: expected a number from 1 to 100/);
    expect(out).toMatch(/bare\/SKILL\.md:8 error steps: there are no steps/);
  });

  test("lists its runs, and cancels one by the beginning of its id", async () => {
    const folder = await createTestFolder({
      "quartermaster.yaml": "store: { path: store.db }\nskills: { folders: [skills] }\n",
    });
    await mkdir(join(folder, "skills/errand"), { recursive: true });
    await writeFile(join(folder, "skills/errand/SKILL.md"), METHOD.replace("skill__other", "tool__pay"));
    expect((await qm(folder, ["skills", "runs"])).out).toContain("No method runs or waits.");
    await leaveWaitingRun(folder);

    const { out } = await qm(folder, ["skills", "runs"], { columns: 200 });
    const { runs } = JSON.parse((await qm(folder, ["skills", "runs", "--json"])).out);
    const asked = await qm(folder, ["approvals", "show", runs[0].approvalId]);
    const cancelled = await qm(folder, ["skills", "cancel", runs[0].id.slice(0, 13)]);

    expect(out).toMatch(/skill__errand +waiting +1\/2 .* default s +waits for approval/);
    expect(runs).toMatchObject([{ action: "skill__errand", state: "waiting", step: 1, steps: 2 }]);
    expect(asked.out).toContain("default in s, by the method errand, at ");
    expect(cancelled.out).toContain("Cancelled skill__errand, which was in step 1 of 2.");
    expect((await qm(folder, ["skills", "cancel", runs[0].id])).code).toBe(1);
    expect((await qm(folder, ["skills", "cancel", "00000000"])).code).toBe(4);
    expect(JSON.parse((await qm(folder, ["skills", "runs", "--json"])).out).runs).toEqual([]);
    expect((await qm(folder, ["skills", "runs", "--all"], { columns: 200 })).out).toMatch(/cancelled/);
    expect(JSON.parse((await qm(folder, ["approvals", "list", "--json"])).out).approvals).toEqual([]);
  });
});

/** A run of another process that waits for approval. */
async function leaveWaitingRun(folder: string): Promise<void> {
  const other = await createQuartermaster({
    store: join(folder, "store.db"),
    skills: { roots: [{ folder: join(folder, "skills"), source: "configured", trusted: true }] },
    models: { default: createScriptedModel({ 1: [[["tool__pay"]]] }) },
    approvals: { worker: false },
  });
  other.register({
    name: "pay",
    description: "Pays.",
    scope: "generalist",
    effect: "external",
    requiresApproval: true,
    inputSchema: z.object({}),
    handler: () => expect.fail("nobody approved it"),
  });
  expect(await other.invoke("skill__errand", {}, { caller: { session: "s" } })).toMatchObject({ status: "waiting" });
  await other.close();
}
