import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Dialogue } from "../src/core/caller.ts";
import { createQuartermaster, type JsonObject, type Quartermaster } from "../src/index.ts";
import { findCompiled } from "./support/compiled.ts";

const SKILLS = join(import.meta.dirname, "fixtures/code-skills");
const roots = [{ folder: SKILLS, source: "configured", trusted: true }];
const line = { type: "object", properties: { line: { type: "string" } } } as const;
const common = { description: "Writes a line.", inputSchema: line, scope: "generalist", effect: "write" } as const;

const ownTemporary = process.env.TMPDIR;
let temporary: string;
let outside: string;
let qm: Quartermaster;
beforeAll(async () => {
  // A folder of our own for the runs, because other test files run skills at the same time.
  temporary = await mkdtemp(join(tmpdir(), "qm-runs-"));
  outside = await mkdtemp(join(tmpdir(), "qm-outside-"));
  await writeFile(join(outside, "secret"), "s3cret");
  qm = await createQuartermaster({
    skills: { roots },
    infospace: {},
    policy: {
      tools: { denied: ["tool__hidden_one"] },
      rules: [{ name: "ask", rule: "tool.name == 'tool__asks'", effect: "ask" }],
    },
  });
  process.env.TMPDIR = temporary;
  for (const name of ["hidden_one", "asks"]) qm.register({ ...common, name, handler: () => "ran" });
});
afterAll(async () => {
  await qm.close();
  if (ownTemporary === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = ownTemporary;
  for (const folder of [outside, temporary]) await rm(folder, { recursive: true, force: true });
});

const listRunFolders = () => readdirSync(temporary);
const attack = (language: "script" | "python", how: string, options = {}) =>
  qm.invoke(`skill__hostile-${language}`, { how, outside }, options);

function createDialogue() {
  const heard: unknown[] = [];
  const dialogue: Dialogue = {
    owner: "test",
    capabilities: {},
    progress: (update) => void heard.push(update),
    log: ({ level, data }) => void heard.push([level, data]),
    ask: () => Promise.reject(new Error("nobody is there")),
  };
  return { dialogue, heard };
}

describe("a code skill", () => {
  test("runs TypeScript with files beside it, and reports progress and what it prints", async () => {
    const { dialogue, heard } = createDialogue();

    const outcome = await qm.invoke("skill__count-words", { text: "to be or not", ignore: ["or"] }, { dialogue });

    expect(outcome).toMatchObject({ status: "done", data: { words: 3, skill: true } });
    expect(heard).toContainEqual({ progress: 1, total: 2, message: "splitting" });
    expect(heard).toContainEqual(["info", "counting"]);
  });

  test("is described by its front matter", () => {
    const described = qm.describe("skill__count-words");

    expect(described).toMatchObject({
      input_schema: { required: ["text"], additionalProperties: false },
      metadata: { purity: "pure", tags: ["skill", "code", "configured"] },
    });
  });

  test("runs Python, whose nested calls are recorded under its own", async () => {
    const caller = { session: "nested" };
    const outcome = await qm.invoke("skill__note-topics", { input: "tea\ncoffee" }, { caller });
    const calls = await qm.ledger.read({ ...caller, type: "call.received" });

    expect(outcome).toMatchObject({ status: "done", data: { notes: [expect.any(String), expect.any(String)] } });
    const { notes } = (outcome as { data: { notes: string[] } }).data;
    expect(await qm.invoke(notes[1] ?? "", {}, { caller })).toMatchObject({ data: { text: "coffee" } });
    expect(calls.map(({ data }) => (data as { parent?: string }).parent)).toEqual([
      undefined,
      outcome.callId,
      outcome.callId,
    ]);
    expect((await qm.ledger.verify()).broken).toEqual([]);
  });

  test("in Python gets input_value, keyword arguments and an executor, which makes its returns", async () => {
    expect(await qm.invoke("skill__uniform", { input: "tea", words: 5 })).toMatchObject({
      status: "done",
      data: { input: "tea", words: 5, others: [] },
    });
    expect(await qm.invoke("skill__uniform")).toMatchObject({
      status: "failed",
      reason: "the skill uniform failed: nothing was given",
    });
  });

  test("runs JavaScript, whose nested calls return outcomes", async () => {
    const { data } = (await qm.invoke("infospace__create-note", { value: "to be or not" })) as { data: JsonObject };

    const outcome = await qm.invoke("skill__first-words", { notes: [data.resource_id], count: 2 });

    expect(outcome).toMatchObject({ status: "done", data: ["to be"] });
    expect(await qm.invoke("skill__first-words", { notes: ["note__999"] })).toMatchObject({
      status: "failed",
      reason: expect.stringContaining("the skill first-words failed: Error: "),
    });
  });

  test.each(["first-words/SKILL.md", "first-words/tool.js", "note-topics/tool.py"])("is documented: %s", (file) => {
    const guide = readFileSync(join(import.meta.dirname, "../docs/guides/write-skills.md"), "utf8");

    expect(guide).toContain(readFileSync(join(SKILLS, file), "utf8"));
  });

  test("has its result stored as a note, however short it is", async () => {
    const outcome = await qm.invoke("skill__count-words", { text: "one" });

    expect(outcome).toMatchObject({ kept: { kind: "note", resource_id: expect.stringMatching(/^note__/) } });
  });

  test("waits as a whole when a nested call waits, and goes on when it is repeated", async () => {
    const caller = { session: "waits" };
    const first = await attack("script", "asks", { caller });
    expect(first).toMatchObject({ status: "waiting", approval: { inner: "tool__asks" } });

    const { id } = (first as { approval: { id: string } }).approval;
    await qm.approvals.answer(id, { decision: "approved" }, { id: "ann", roles: ["approver"], via: "test" });

    await expect
      .poll(() => attack("script", "asks", { caller }))
      .toMatchObject({ status: "done", data: { status: "done", data: "ran" } });
  });
});

describe("a hostile code skill", () => {
  test.each([
    ["script", 50],
    ["python", 45],
  ] as const)("in %s gets nothing outside of its folder, no process and no network", async (language, tried) => {
    const outcome = await attack(language, "attempts");

    expect(outcome).toMatchObject({ status: "done", data: { tried, succeeded: [] } });
    expect(await readdir(outside)).toEqual(["secret"]);
  });

  test("gets none of our variables", async () => {
    process.env.QM_TEST_VARIABLE = "s3cret";
    onTestFinished(() => void delete process.env.QM_TEST_VARIABLE);

    const { data } = (await attack("python", "variables")) as { data: Record<string, string> };

    expect(Object.keys(data).filter((name) => !["PWD", "LC_CTYPE", "OLDPWD", "SHLVL", "_"].includes(name))).toEqual([]);
  });

  test.each([
    ["script", "loop"],
    ["script", "close"],
    ["python", "loop"],
  ] as const)("in %s is killed at its deadline: %s", async (language, how) => {
    const outcome = await attack(language, how, { timeoutMs: 700 });

    expect(outcome).toMatchObject({ status: "failed", error: { code: "timed_out" } });
    await expect.poll(listRunFolders).toEqual([]);
  });

  test("is killed when its call is cancelled", async () => {
    const cancel = new AbortController();
    const running = attack("script", "never", { signal: cancel.signal });
    await expect.poll(listRunFolders).not.toEqual([]);

    cancel.abort();

    expect(await running).toMatchObject({ error: { code: "cancelled" } });
    await expect.poll(listRunFolders).toEqual([]);
  });

  test("is killed when the gateway closes", async () => {
    const other = await createQuartermaster({ skills: { roots } });
    const running = other.invoke("skill__hostile-script", { how: "never" });
    await expect.poll(listRunFolders).not.toEqual([]);

    await other.close();

    expect(listRunFolders()).toEqual([]);
    expect(await running).toMatchObject({ error: { code: "cancelled" } });
  });

  test.each([
    ["script", "memory"],
    ["script", "buffers"],
    ["python", "memory"],
  ] as const)("in %s is stopped when it uses too much: %s", async (language, how) => {
    expect(await attack(language, how)).toMatchObject({
      status: "failed",
      reason: expect.stringContaining("too much memory"),
    });
  });

  test.each([
    ["script", "long result", "too_large", "longer than"],
    ["script", "deep result", "action_failed", "too deep or has too many parts"],
    ["script", "wide result", "action_failed", "more than 20000 fields"],
    ["script", "no message", "action_failed", "cannot be read"],
    ["script", "progress", "action_failed", "more than 10000 messages"],
    ["script", "calls", "action_failed", "more than 1000 calls"],
    ["script", "throw", "action_failed", "Error: \\u{1b}[2Jcleared (tool.mjs:"],
    ["python", "flood", "too_large", "longer than"],
    ["python", "exit", "action_failed", "ended with code 3"],
  ] as const)("in %s fails with a reason: %s", async (language, how, code, reason) => {
    const outcome = await attack(language, how);

    expect(outcome).toMatchObject({ status: "failed", error: { code }, reason: expect.stringContaining(reason) });
    // No call begins after the end.
    const count = async () => (await qm.ledger.read({ type: "call.received", limit: 10_000 })).length;
    const calls = await count();
    await setImmediate();
    expect(await count()).toBe(calls);
    if (how === "exit") expect(outcome).toMatchObject({ error: { stderr: "last words" } });
  });

  test("does not fail when it prints more than is read", async () => {
    expect(await attack("script", "print much")).toMatchObject({ status: "done", data: "done" });
  });

  test("cannot fake its result by printing one, nor write to a terminal", async () => {
    const { dialogue, heard } = createDialogue();

    expect(await attack("script", "print", { dialogue })).toMatchObject({ status: "done", data: "real" });
    expect(heard).toEqual(
      expect.arrayContaining([
        ["info", '{"result":"fake"}'],
        ["info", "\\u{1b}[2Jcleared"],
        ["warning", "warned"],
      ]),
    );
    expect(await attack("python", "print")).toMatchObject({ status: "done", data: "real" });
  });

  test("cannot tell a hidden action from an unknown one", async () => {
    const { data } = (await attack("script", "hidden")) as { data: { hidden: object; unknown: object } };

    const clean = (outcome: object) =>
      JSON.stringify(outcome).replaceAll("hidden_one", "X").replaceAll("hidden_two", "X");
    const { callId: _a, durationMs: _b, ...hidden } = data.hidden as Record<string, unknown>;
    const { callId: _c, durationMs: _d, ...unknown } = data.unknown as Record<string, unknown>;
    expect(hidden).toMatchObject({ status: "failed", error: { code: "unknown_action" } });
    expect(clean(hidden)).toBe(clean(unknown));
  });

  test("that calls itself without end is refused after 8 processes", async () => {
    const outcome = await attack("script", "itself");

    expect(JSON.stringify(outcome)).toContain("8 programs of skills are running");
  });
});

test("a gateway killed while code skills run leaves no process, and nothing runs again", async () => {
  const folder = await mkdtemp(join(tmpdir(), "qm-killed-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const [store, journal, runs] = [join(folder, "store.db"), join(folder, "journal"), join(folder, "tmp")];
  await mkdir(runs);
  const program = findCompiled(new URL("fixtures/code-skill-process.ts", import.meta.url));
  const env = { ...process.env, TMPDIR: runs };
  const host = spawn(process.execPath, [program, SKILLS, store, journal], { env, stdio: "inherit" });
  onTestFinished(() => void host.kill("SIGKILL"));
  const readJournal = () => (existsSync(journal) ? readFileSync(journal, "utf8").trim().split("\n").sort() : []);
  await expect.poll(readJournal).toHaveLength(2);
  const [python = ""] = readJournal();
  const pid = Number(python.split(" ")[1]);
  expect(process.kill(pid, 0)).toBe(true);
  expect(await readdir(runs)).toHaveLength(2);

  host.kill("SIGKILL");
  await once(host, "exit");

  await expect.poll(() => readdirSync(runs)).toEqual([]);
  await expect.poll(() => isAlive(pid)).toBe(false);
  const restarted = await createQuartermaster({ skills: { roots }, store });
  onTestFinished(restarted.close);
  expect((await restarted.ledger.verify()).broken).toEqual([]);
  const received = await restarted.ledger.read({ type: "call.received" });
  expect(received).toHaveLength(4);
  expect(readJournal()).toHaveLength(2);
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
