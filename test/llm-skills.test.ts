import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { JsonObject } from "../src/core/json.ts";
import type { Model, ModelRequest } from "../src/core/model.ts";
import { createQuartermaster, findCoreSkills, type Quartermaster, type QuartermasterOptions } from "../src/index.ts";
import { findCompiled } from "./support/compiled.ts";

const fixtures = { folder: join(import.meta.dirname, "fixtures/skills"), source: "fixtures", trusted: true };

function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-llm-skills-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A model that first waits until `together` requests are open, and counts how many are open at a time. */
function createModel(answer: (prompt: string, request: ModelRequest) => string, together = 1) {
  const prompts: string[] = [];
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  let open = 0;
  let mostOpen = 0;
  const model: Model = {
    name: "scripted",
    async generate(request) {
      const [first] = request.messages;
      const prompt = first?.role === "user" ? first.text : "";
      prompts.push(prompt);
      mostOpen = Math.max(mostOpen, ++open);
      if (prompts.length === together) {
        // Time for one more request, which must not come.
        for (let turn = 0; turn < 500; turn++) await new Promise((resolve) => setImmediate(resolve));
        release();
      }
      await released;
      open--;
      const text = answer(prompt, request);
      if (text === "fail") throw new Error("the service is down");
      return { message: { role: "assistant", text, toolCalls: [] }, finish: "stop", inputTokens: 1, outputTokens: 1 };
    },
  };
  return { model, prompts, mostOpen: () => mostOpen };
}

async function openSkills(model: Model | undefined, options: QuartermasterOptions = {}): Promise<Quartermaster> {
  const quartermaster = await createQuartermaster({
    store: join(createFolder(), "store.db"),
    infospace: {},
    skills: { roots: [fixtures, findCoreSkills()] },
    ...(model === undefined ? {} : { models: { default: model } }),
    ...options,
  });
  onTestFinished(quartermaster.close);
  return quartermaster;
}

async function run(quartermaster: Quartermaster, name: string, args: object): Promise<JsonObject> {
  const outcome = await quartermaster.invoke(name, args);
  if (outcome.status !== "done") throw new Error(outcome.value);
  return outcome.data as JsonObject;
}

const createNotes = async (quartermaster: Quartermaster, count: number): Promise<string> => {
  const items = Array.from({ length: count }, (_, at) => `Note ${at}.`);
  return String((await run(quartermaster, "infospace__create-collection", { items })).handle);
};

const readNumber = (prompt: string): number => Number(/Note (\d+)\./.exec(prompt)?.[1]);

async function readAll(quartermaster: Quartermaster, handle: unknown): Promise<readonly unknown[]> {
  const plucked = await quartermaster.invoke("tool__read", { items: { $from: String(handle) } });
  return plucked.status === "done" ? (plucked.data as readonly unknown[]) : [plucked.value];
}

/** Answers its argument, so that a handle in it is read. */
function registerReader(quartermaster: Quartermaster): void {
  quartermaster.register({
    name: "read",
    description: "Answers its items.",
    inputSchema: { type: "object", properties: { items: {} }, required: ["items"] },
    scope: "generalist",
    effect: "read",
    handler: ({ items }) => items,
  });
}

describe("map with a core skill", () => {
  test("summarizes 200 notes with four requests at a time, in order, and counts what failed and what was empty", async () => {
    const { model, prompts, mostOpen } = createModel((prompt) => {
      const number = readNumber(prompt);
      return number === 7 ? "fail" : number === 9 ? "null" : `Summary ${number}`;
    }, 4);
    const quartermaster = await openSkills(model);
    registerReader(quartermaster);
    const target = await createNotes(quartermaster, 200);

    const answer = await run(quartermaster, "infospace__map", { target, action: "skill__summarize" });

    expect(mostOpen()).toBe(4);
    expect(prompts).toHaveLength(200);
    expect(answer).toMatchObject({ input: 200, done: 198, failed: 1, empty: 1, dropped: 0, not_run: 0, count: 198 });
    expect(answer).toMatchObject({ failures: [{ position: 7, code: "model_failed" }] });
    const numbers = Array.from({ length: 200 }, (_, at) => at).filter((at) => at !== 7 && at !== 9);
    expect(await readAll(quartermaster, answer.handle)).toEqual(numbers.map((at) => `Summary ${at}`));
  });

  test("extracts fields from each note, and leaves out notes that have none of them", async () => {
    const { model, prompts } = createModel((prompt) =>
      readNumber(prompt) === 1 ? "null" : JSON.stringify({ number: readNumber(prompt), date: null }),
    );
    const quartermaster = await openSkills(model);
    registerReader(quartermaster);

    const answer = await run(quartermaster, "infospace__map", {
      target: await createNotes(quartermaster, 3),
      action: "skill__extract",
      args: { input: { $item: "" }, fields: ["number", "date"] },
    });

    expect(prompts[0]).toContain('Fields: <skill_input name="fields">["number","date"]</skill_input>');
    expect(answer).toMatchObject({ done: 2, empty: 1 });
    expect(await readAll(quartermaster, answer.handle)).toEqual([
      { number: 0, date: null },
      { number: 2, date: null },
    ]);
  });

  test("stops when a budget is used up, and runs the rest when asked again", async () => {
    const { model, prompts } = createModel((prompt) => `Summary ${readNumber(prompt)}`);
    const quartermaster = await openSkills(model, { policy: { budgets: { session: { calls: 10 } } } });
    registerReader(quartermaster);
    const map = { target: await createNotes(quartermaster, 20), action: "skill__summarize" };

    const first = await run(quartermaster, "infospace__map", { ...map, concurrency: 2 });
    quartermaster.usePolicy({ budgets: { session: { calls: 100 } } });
    const { positions, into } = first.continue_with as { readonly positions: readonly number[]; readonly into: string };
    const second = await run(quartermaster, "infospace__map", { ...map, positions, into });
    const last = await run(quartermaster, "infospace__map", { ...map, into, offset: first.next });

    expect(first).toMatchObject({ done: 8, failed: positions.length, stopped_by: "budget" });
    expect(JSON.stringify(first.failures)).toContain("budget_exceeded");
    expect(second).toMatchObject({ done: positions.length });
    expect(last).toMatchObject({ count: 20, not_run: 0 });
    expect(prompts.map(readNumber).sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, at) => at));
  });

  test("works with a skill that has an output schema and several inputs", async () => {
    const { model } = createModel((prompt) =>
      JSON.stringify({ meets: readNumber(prompt) > 0, reason: `It is note ${readNumber(prompt)}.` }),
    );
    const quartermaster = await openSkills(model);
    const mapped = await run(quartermaster, "infospace__map", {
      target: await createNotes(quartermaster, 3),
      action: "skill__assess",
      args: { input: { $item: "" }, criterion: "It has a number above zero." },
    });
    const met = await run(quartermaster, "infospace__filter-structured", {
      target: mapped.handle,
      where: "meets == true",
    });

    expect(mapped).toMatchObject({ done: 3 });
    expect(met).toMatchObject({ count: 2 });
  });
});

test("the prompt in docs/guides/write-skills.md runs, and its calls fit it", async () => {
  const guide = readFileSync(join(import.meta.dirname, "../docs/guides/write-skills.md"), "utf8");
  const [, skill = ""] = /```markdown\n(---\nname: triage-report\n[\s\S]*?)```/.exec(guide) ?? [];
  const [, report = ""] = /skill__triage-report '(.*)'/.exec(guide) ?? [];
  const folder = createFolder();
  mkdirSync(join(folder, "triage-report"));
  writeFileSync(join(folder, "triage-report/SKILL.md"), skill);
  const { model, prompts } = createModel(() => '{"kind":"bug","summary":"Saving crashes."}');
  const roots = [{ folder, source: "configured", trusted: true }];
  const quartermaster = await openSkills(model, { skills: { roots } });

  expect(await run(quartermaster, "skill__triage-report", JSON.parse(report))).toMatchObject({ kind: "bug" });
  expect(prompts[0]).toContain('about <skill_input name="product">the app</skill_input>.');
  const target = await createNotes(quartermaster, 2);
  const map = { target, action: "skill__triage-report" };
  expect(await run(quartermaster, "infospace__map", map)).toMatchObject({ done: 2 });
});

describe("core skills without a model", () => {
  test("are listed as unavailable, with the reason, and say it when they are called", async () => {
    const quartermaster = await openSkills(undefined);

    for (const name of ["skill__extract", "skill__summarize"]) {
      const state = { state: "unavailable", state_reason: expect.stringContaining("no language model is configured") };
      expect(quartermaster.describe(name).metadata).toMatchObject(state);
      expect(await quartermaster.invoke(name, { input: "x" })).toMatchObject({
        status: "failed",
        error: { code: "no_model", error: expect.stringContaining("no language model is configured") },
      });
    }
  });
});

test("a process killed during map leaves its answers, and map continues after them", async () => {
  const folder = createFolder();
  const [store, log] = [join(folder, "store.db"), join(folder, "requests.log")];
  const script = findCompiled(new URL("fixtures/mapping-process.ts", import.meta.url));
  const child = spawn(process.execPath, [script, store, log], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [line] = await once(child.stdout, "data");
  child.kill("SIGKILL");
  await once(child, "close");
  const target = String(line).trim();
  const before = readNumbers(log);

  const { model, prompts } = createModel((prompt) => `Summary ${readNumber(prompt)}`);
  const quartermaster = await openSkills(model, { store });
  registerReader(quartermaster);
  const { items } = await quartermaster.notes.list({ kind: "collection" });
  const made = items.find(({ name }) => name === "summaries");
  const stored = made !== undefined && "count" in made ? Number(made.count) : 0;
  expect(made).toMatchObject({ complete: false });
  expect(stored).toBeGreaterThan(15);
  expect(await quartermaster.ledger.verify()).toMatchObject({ broken: [] });
  expect(prompts).toEqual([]);

  const into = made?.handle;
  const rest = await run(quartermaster, "infospace__map", { target, action: "skill__summarize", into });

  expect(rest).toMatchObject({ handle: into, count: 60, input: 60 - stored, done: 60 - stored });
  expect(rest).not.toHaveProperty("complete");
  expect(prompts.map(readNumber).sort((a, b) => a - b)).toEqual(
    Array.from({ length: 60 - stored }, (_, at) => stored + at),
  );
  for (let at = 0; at < stored; at++) expect(before.filter((each) => each === at)).toHaveLength(1);
  expect(await readAll(quartermaster, into)).toEqual(Array.from({ length: 60 }, (_, at) => `Summary ${at}`));
});

const readNumbers = (log: string): readonly number[] => readFileSync(log, "utf8").trim().split("\n").map(Number);
