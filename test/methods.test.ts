import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import type { Model } from "../src/core/model.ts";
import type { ActionName } from "../src/core/names.ts";
import { createQuartermaster, defineResource, type Quartermaster, type QuartermasterOptions } from "../src/index.ts";
import { createScriptedModel, type MethodScript, readLastResults } from "./fixtures/scripted-method.ts";

const REVIEW = `---
name: review
description: Reviews a contract and pays the reviewer.
type: method
inputs: { contract: The contract. }
tools: [tool__read]
outcomes: [success, inapplicable]
exports: [findings, summary]
accept:
  - size(exports.findings) > 0
  - "outcome != 'success' || exports.summary != null"
budget: 20
---
Review one contract.

1. **Read it.** Read the contract.
2. **Find.** Find what is wrong.
3. **Pay.** Pay the reviewer.
   Tools: tool__pay
4. **Check.** Read it once more.
5. **Sum up.** Set the exports and end.
`;

const SCRIPT: MethodScript = {
  1: [[["tool__read", { page: 1 }]], [["finish_step", { result: "one page" }]]],
  2: [
    [
      ["set_export", { name: "findings", value: [] }],
      ["finish_step", {}],
    ],
  ],
  3: [[["tool__pay", { to: "ann" }]], [["finish_step", { result: "paid" }]]],
  4: [[["tool__read", { page: 2 }]], [["finish_step"]]],
  5: [
    [
      ["set_export", { name: "summary", value: "short" }],
      ["end_method", { outcome: "success" }],
    ],
    [
      ["set_export", { name: "findings", value: ["no date"] }],
      ["end_method", { outcome: "success" }],
    ],
  ],
};

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

interface MethodFolder {
  readonly folder: string;
  readonly effects: string[];
  write(name: string, text: string): void;
  open(model: Model | undefined, options?: Partial<QuartermasterOptions>): Promise<Quartermaster>;
}

function createMethodFolder(files: Readonly<Record<string, string>> = { review: REVIEW }): MethodFolder {
  const folder = mkdtempSync(join(tmpdir(), "qm-methods-"));
  cleanUps.push(() => rmSync(folder, { recursive: true, force: true }));
  const effects: string[] = [];
  const write = (name: string, text: string) => {
    mkdirSync(join(folder, "skills", name), { recursive: true });
    writeFileSync(join(folder, "skills", name, "SKILL.md"), text);
  };
  for (const [name, text] of Object.entries(files)) write(name, text);
  return {
    folder,
    effects,
    write,
    async open(model, options = {}) {
      const qm = await createQuartermaster({
        store: join(folder, "store.db"),
        infospace: { enabled: true },
        skills: { roots: [{ folder: join(folder, "skills"), source: "test", trusted: true }] },
        ...(model === undefined ? {} : { models: { default: model } }),
        ...options,
      });
      cleanUps.push(qm.close);
      const common = { scope: "generalist", description: "Does it." } as const;
      qm.register({
        ...common,
        name: "read",
        effect: "read",
        inputSchema: z.object({ page: z.number() }),
        handler: ({ page }) => `page ${page}`,
      });
      qm.register({
        ...common,
        name: "pay",
        effect: "external",
        requiresApproval: true,
        inputSchema: z.object({ to: z.string() }),
        handler({ to }) {
          effects.push(to);
          return { paid: to };
        },
      });
      return qm;
    },
  };
}

const caller = { session: "s" };
const args = { contract: "c" };
const noWorker = { approvals: { worker: false } };
const approver = { id: "ann", roles: ["user"], via: "test" };
const review = (qm: Quartermaster) => qm.invoke("skill__review", args, { caller });

/** A tool that runs any action with the arguments of the method. */
const registerRun = (qm: Quartermaster) =>
  qm.register({
    name: "run",
    description: "Runs an action.",
    scope: "generalist",
    effect: "stateful",
    inputSchema: z.object({ action: z.string() }),
    handler: ({ action }, { invoke }) => invoke(action, args),
  });

async function readEvents(qm: Quartermaster, type: string) {
  return (await qm.ledger.read({ type })).map(({ data }) => data as Record<string, unknown>);
}

describe("a method", () => {
  test("of five steps waits for an approval given elsewhere, meets a condition at the second try, and ends", async () => {
    const folder = createMethodFolder();
    const model = createScriptedModel(SCRIPT);
    const qm = await folder.open(model, noWorker);

    const waiting = await review(qm);

    expect(waiting).toMatchObject({ status: "waiting", approval: { inner: "tool__pay" } });
    expect(await qm.methods.list()).toMatchObject([{ state: "waiting", step: 3, steps: 5, action: "skill__review" }]);
    expect((await qm.methods.list())[0]).not.toHaveProperty("canContinue");
    expect(folder.effects).toEqual([]);
    await qm.close();

    const other = await folder.open(model, noWorker);
    const [approval] = await other.approvals.list();
    await other.approvals.answer(approval?.id ?? "", { decision: "approved" }, approver);
    await other.approvals.run();
    expect(await other.methods.list()).toMatchObject([{ state: "waiting", canContinue: true }]);
    expect(folder.effects).toEqual(["ann"]);
    await other.close();

    const third = await folder.open(model, noWorker);
    const done = await review(third);

    const exports = { findings: ["no date"], summary: "short" };
    expect(done).toMatchObject({ status: "done", data: { outcome: "success", exports, steps_done: 5 } });
    expect(folder.effects).toEqual(["ann"]);
    const rejection = readLastResults(model.requests.at(-1)).at(-1);
    expect(rejection).toContain("not accepted: size(exports.findings) > 0");
    expect((await readEvents(third, "method.advanced")).map(({ step }) => step)).toEqual([1, 2, 3, 4, 5]);
    expect(await readEvents(third, "method.ended")).toMatchObject([{ outcome: "success", skill: "review" }]);
    const [started] = await readEvents(third, "method.started");
    const [continued] = await readEvents(third, "method.continued");
    expect(continued).toMatchObject({ run: started?.run, step: 3, callId: done.callId });
    const inner = await readEvents(third, "call.received");
    expect(inner.filter(({ parent }) => parent === started?.callId).map(({ asked }) => asked)).toEqual([
      "tool__read",
      "tool__pay",
    ]);
  });

  test("starts anew when its result was delivered", async () => {
    const folder = createMethodFolder();
    const qm = await folder.open(
      createScriptedModel({ 1: [[["end_method", { outcome: "inapplicable", reason: "no" }]]] }),
    );

    const [first, second] = [await review(qm), await review(qm)];

    expect(first).toMatchObject({ status: "done", data: { outcome: "inapplicable", reason: "no", steps_done: 0 } });
    expect(second).toMatchObject({ status: "done", data: { outcome: "inapplicable" } });
    expect(await readEvents(qm, "method.started")).toHaveLength(2);
  });

  test("is continued by the worker after the approval, and gives its result once", async () => {
    const folder = createMethodFolder();
    const qm = await folder.open(createScriptedModel(SCRIPT));
    const waiting = await review(qm);
    if (waiting.status !== "waiting") expect.fail(waiting.value);

    await qm.approvals.answer(waiting.approval.id, { decision: "approved" }, approver);
    await vi.waitFor(async () => expect(await qm.methods.list()).toMatchObject([{ state: "done" }]), 20_000);

    expect(await review(qm)).toMatchObject({ status: "done", data: { outcome: "success" } });
    expect(folder.effects).toEqual(["ann"]);
    expect(await review(qm)).toMatchObject({ status: "waiting" });
  });

  test("tells the model that a person denied the call", async () => {
    const folder = createMethodFolder();
    const model = createScriptedModel({
      ...SCRIPT,
      3: [[["tool__pay", { to: "ann" }]], [["end_method", { outcome: "failed", reason: "denied" }]]],
    });
    const qm = await folder.open(model, noWorker);
    const waiting = await review(qm);
    if (waiting.status !== "waiting") expect.fail(waiting.value);

    await qm.approvals.answer(waiting.approval.id, { decision: "denied", reason: "too much" }, approver);

    const failed = await review(qm);
    expect(failed).toMatchObject({
      status: "failed",
      error: { code: "action_failed", error: "the method failed: denied" },
    });
    expect(readLastResults(model.requests.at(-1))[0]).toContain("tool_denied");
    expect(folder.effects).toEqual([]);
  });

  test("fails when the same condition is not met twice", async () => {
    const end = [["end_method", { outcome: "success" }]] as const;
    const qm = await createMethodFolder().open(createScriptedModel({ 1: [end, end] }));

    const failed = await review(qm);

    expect(failed).toMatchObject({ status: "failed", error: { code: "not_accepted", outcome: "success" } });
    if ("error" in failed) expect(failed.error.unmet).toHaveLength(2);
    expect(await readEvents(qm, "method.ended")).toMatchObject([{ outcome: "failed", code: "not_accepted" }]);
  });

  test("refuses an outcome that is not declared, and a text never counts as an end", async () => {
    const model = createScriptedModel({ 1: [[["end_method", { outcome: "great" }]], "Done!", "METHOD COMPLETE"] });
    const qm = await createMethodFolder().open(model);

    expect(await review(qm)).toMatchObject({
      status: "failed",
      error: { code: "action_failed" },
      reason: /without calling a tool/,
    });
    expect(readLastResults(model.requests[1])).toEqual([expect.stringContaining("is not an outcome")]);
    expect(model.requests).toHaveLength(3);
  });

  test("stops at its budget, and at that of a step", async () => {
    const again = Array.from({ length: 30 }, () => [["tool__read", { page: 1 }]] as const);
    const model = createScriptedModel({ 1: again });
    const qm = await createMethodFolder().open(model);
    expect(await review(qm)).toMatchObject({ status: "failed", reason: /budget of 20 requests was used up in step 1/ });
    expect(model.requests).toHaveLength(20);

    const short = createScriptedModel({ 1: again });
    const limited = REVIEW.replace("Read the contract.", "Read the contract.\n   Budget: 3");
    const other = await createMethodFolder({ review: limited }).open(short);
    expect(await review(other)).toMatchObject({ status: "failed", reason: /step 1 used up its budget of 3/ });
    expect(short.requests).toHaveLength(3);
  });

  test("offers only the tools of the step that the caller sees, and refuses others", async () => {
    const folder = createMethodFolder();
    const model = createScriptedModel({
      1: [[["tool__pay", { to: "eve" }]], [["end_method", { outcome: "inapplicable" }]]],
      3: [],
    });
    const actors = [{ name: "poor", tools: ["skill__review", "tool__read"] }];
    const qm = await folder.open(model, { policy: { actors } });

    await qm.invoke("skill__review", args, { caller: { actor: "poor", session: "s" } });

    expect(model.requests[0]?.tools?.map(({ name }) => name)).toEqual([
      "tool__read",
      "finish_step",
      "set_export",
      "end_method",
    ]);
    expect(readLastResults(model.requests[1])).toEqual([expect.stringContaining("is not a tool of this step")]);
    expect(await readEvents(qm, "tool.refused")).toMatchObject([{ tool: "tool__pay", step: 1 }]);
    expect(await qm.approvals.list()).toEqual([]);
  });

  test.each([
    ["infospace__apply", { action: "tool__send", args: { to: "eve" } }],
    ["infospace__apply", { action: "Tool Send", args: { to: "eve" } }],
    ["infospace__apply", { Action: "tool__send", args: { to: "eve" } }],
    ["infospace__apply", '{"action": "tool__send", "args": {"to": "eve"}}'],
    ["infospace__apply", { action: "infospace__apply", args: { action: "tool__send", args: { to: "eve" } } }],
    ["infospace__map", { target: ["eve"], action: "tool__send", args: { to: { $item: "" } } }],
    ["tool__forward", { target: "tool__send", args: { to: "eve" } }],
    ["tool__forward", { target: ["tool__send"], args: { to: "eve" } }],
    ["tool__forward", { target: "tool__forward", args: { target: "tool__send", args: { to: "eve" } } }],
    ["tool__forward", { target: "infospace__apply", args: { action: "tool__send", args: { to: "eve" } } }],
    ["tool__short", { target: "send", args: { to: "eve" } }],
    ["tool__short", { target: "tool__send", args: { to: "eve" } }],
    ["macro__send", { to: "eve" }],
    ["macro__send", { to: "eve", target: "tool__read" }],
  ])("cannot run a tool that it does not declare through %s %j", async (tool, given) => {
    const declared = '["infospace__*", "macro__*", tool__forward, tool__short, tool__read]';
    const folder = createMethodFolder({ review: REVIEW.replace("[tool__read]", declared) });
    const read = { page: 7 };
    const calls = [
      ["infospace__apply", { action: "tool__read", args: read }],
      ["tool__forward", { target: "tool__read", args: read }],
      ["tool__short", { target: "read", args: read }],
    ] as const;
    const model = createScriptedModel({
      1: [[[tool, given], ...calls], [["end_method", { outcome: "inapplicable" }]]],
    });
    const target = "tool__forward" as ActionName;
    const transform = { set: { target: "tool__send" }, wrap: "args" };
    const macro = defineResource("macro", { entry: "send", description: "Sends.", target, transform });
    const provider = { category: "macro", capability: "send", list: () => [macro] };
    const qm = await folder.open(model, { providers: [provider] });
    const common = { scope: "generalist", description: "Sends." } as const;
    const handler = ({ to }: { to: string }) => folder.effects.push(to);
    qm.register({ ...common, name: "send", effect: "write", inputSchema: z.object({ to: z.string() }), handler });
    for (const [name, prefix] of [["forward"], ["short", "tool__"]] as const)
      qm.register({
        ...common,
        name,
        effect: "stateful",
        inputSchema: z.object({ target: z.string(), args: z.record(z.string(), z.unknown()) }),
        runsAction: { argument: "target", ...(prefix && { prefix }) },
        handler: async ({ target, args }, { invoke }) =>
          (await invoke(target.startsWith(prefix ?? "") ? target : `${prefix}${target}`, args)).value,
      });
    expect((await qm.invoke("macro__send", { to: "ada" })).status).toBe("done");
    expect(folder.effects.splice(0)).toEqual(["ada"]);

    await review(qm);

    expect(folder.effects).toEqual([]);
    const [refused, ...allowed] = readLastResults(model.requests[1]);
    expect(refused).toContain("is not a tool of this step");
    expect(allowed).toEqual(calls.map(() => expect.stringContaining("page 7")));
    expect(await readEvents(qm, "tool.refused")).toHaveLength(1);
  });

  test("runs 16 calls of one answer, and stores the refusal of thousands more at once", async () => {
    const many = Array.from({ length: 5_000 }, () => ["tool__other", {}] as const);
    const model = createScriptedModel({ 1: [many, [["end_method", { outcome: "inapplicable" }]]] });
    const qm = await createMethodFolder().open(model);

    await review(qm);

    const results = readLastResults(model.requests[1]);
    expect(results).toHaveLength(5_000);
    expect(results.filter((text) => text.includes("at most 16 calls"))).toHaveLength(4_984);
    expect(await readEvents(qm, "tool.refused")).toHaveLength(16);
  });

  test("does not get a declared tool that is hidden from its caller", async () => {
    const model = createScriptedModel({
      1: [[["finish_step"]]],
      2: [[["finish_step"]]],
      3: [[["tool__pay", { to: "eve" }]], [["end_method", { outcome: "inapplicable" }]]],
    });
    const actors = [{ name: "poor", tools: ["skill__review", "tool__read"] }];
    const qm = await createMethodFolder().open(model, { policy: { actors } });

    await qm.invoke("skill__review", args, { caller: { actor: "poor", session: "s" } });

    expect(model.requests[2]?.tools?.map(({ name }) => name)).not.toContain("tool__pay");
    expect(readLastResults(model.requests[3])).toEqual([expect.stringContaining("is not a tool of this step")]);
  });

  test("cannot run another method, by name or through another action", async () => {
    const inner = REVIEW.replace("name: review", "name: inner");
    const outer = REVIEW.replace("[tool__read]", '["skill__*", tool__run]');
    const apply = ["tool__run", { action: "skill__inner" }] as const;
    const model = createScriptedModel({
      1: [[["skill__inner", args], apply], [["end_method", { outcome: "inapplicable" }]]],
    });
    const qm = await createMethodFolder({ review: outer, inner }).open(model);
    registerRun(qm);

    await review(qm);

    expect(model.requests).toHaveLength(2);
    const [byName, applied] = readLastResults(model.requests[1]);
    expect(byName).toContain("is not a tool of this step");
    expect(applied).toContain("cannot run inside the method review");
    expect(await readEvents(qm, "method.started")).toMatchObject([{ skill: "review" }]);
  });

  test("finishes no step in the answer that calls an action, and shows the model the result", async () => {
    const model = createScriptedModel({
      1: [[["tool__read", { page: 7 }], ["finish_step"]], [["end_method", { outcome: "inapplicable" }]]],
    });
    const qm = await createMethodFolder().open(model);

    await review(qm);

    expect(readLastResults(model.requests[1])).toEqual(["page 7", expect.stringContaining("look at the results")]);
  });

  test("exports a handle, and a condition reads the note behind it", async () => {
    const text = REVIEW.replace("size(exports.findings) > 0", "notes.findings.size() == 2").replace(
      "[tool__read]",
      "[infospace__create-note]",
    );
    const set = (handle: string) => [["set_export", { name: "findings", handle }]] as const;
    const model = createScriptedModel({
      1: [
        set("note__99"),
        [["infospace__create-note", { value: ["a", "b"] }]],
        [
          ["set_export", { name: "findings", handle: "note__1" }],
          ["set_export", { name: "summary", value: "s" }],
          ["end_method", { outcome: "success" }],
        ],
      ],
    });
    const qm = await createMethodFolder({ review: text }).open(model);

    const done = await review(qm);

    expect(readLastResults(model.requests[1])[0]).toMatch(/^error: .*note__99/);
    expect(done).toMatchObject({ status: "done", data: { exports: { findings: "note__1", summary: "s" } } });
  });

  test("fails with conflict when its file changed while it waited", async () => {
    const folder = createMethodFolder();
    const qm = await folder.open(createScriptedModel(SCRIPT), noWorker);
    await review(qm);
    await qm.close();
    folder.write("review", REVIEW.replace("Find what is wrong.", "Find nothing."));

    const other = await folder.open(createScriptedModel(SCRIPT), noWorker);

    expect(await review(other)).toMatchObject({ status: "failed", error: { code: "conflict" } });
    expect(await other.methods.list()).toMatchObject([{ state: "failed" }]);
  });

  test("says that there is no model", async () => {
    const qm = await createMethodFolder().open(undefined);

    expect(qm.describe("skill__review").metadata).toMatchObject({ state: "unavailable" });
    expect(await review(qm)).toMatchObject({ status: "failed", error: { code: "no_model" } });
    expect(await qm.methods.list()).toEqual([]);
  });

  test("runs once at a time for the same call", async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const model = createScriptedModel({ 1: [[["end_method", { outcome: "inapplicable" }]]] }, () => gate);
    const qm = await createMethodFolder().open(model);
    const first = review(qm);
    await vi.waitFor(() => expect(model.requests).toHaveLength(1));

    expect(await review(qm)).toMatchObject({ status: "failed", error: { code: "conflict" } });

    release();
    expect(await first).toMatchObject({ status: "done" });
  });
});

describe("the calls of a method", () => {
  const end = [["end_method", { outcome: "inapplicable" }]] as const;

  test("cannot run another method through a call that a person approved", async () => {
    const inner = REVIEW.replace("name: review", "name: inner");
    const outer = REVIEW.replace("[tool__read]", "[tool__run]");
    const model = createScriptedModel({ 1: [[["tool__run", { action: "skill__inner" }]], end] });
    const rules = [{ name: "ask", rule: "tool.name == 'tool__run'", effect: "ask" }] as const;
    const qm = await createMethodFolder({ review: outer, inner }).open(model, { ...noWorker, policy: { rules } });
    registerRun(qm);
    const waiting = await review(qm);
    if (waiting.status !== "waiting") expect.fail(waiting.value);
    await qm.approvals.answer(waiting.approval.id, { decision: "approved" }, approver);

    await qm.approvals.run();

    expect(await qm.approvals.get(waiting.approval.id)).toMatchObject({ state: "done", method: "review" });
    await review(qm);
    expect(readLastResults(model.requests.at(-1))[0]).toContain("cannot run inside the method review");
    expect(await readEvents(qm, "method.started")).toMatchObject([{ skill: "review" }]);
  });

  test("get values for handles, and their long results become notes", async () => {
    const long = "word ".repeat(4_000);
    const seen: unknown[] = [];
    const text = REVIEW.replace("[tool__read]", "[tool__long, tool__take]");
    const model = createScriptedModel({ 1: [[["tool__long"]], [["tool__take", { text: { $from: "note__1" } }]], end] });
    const qm = await createMethodFolder({ review: text }).open(model);
    const common = { scope: "generalist", description: "Does it.", effect: "read" } as const;
    qm.register({ ...common, name: "long", inputSchema: z.object({}), handler: () => long });
    const inputSchema = z.object({ text: z.string() });
    qm.register({ ...common, name: "take", inputSchema, handler: ({ text }) => seen.push(text) });

    await review(qm);

    expect(readLastResults(model.requests[1])[0]).toContain("note__1");
    expect(readLastResults(model.requests[1])[0]?.length).toBeLessThan(5_000);
    expect(seen).toEqual([long]);
  });

  test("stay the origin of notes that are made after the method is continued", async () => {
    const text = REVIEW.replace("Find what is wrong.", "Find it.\n   Tools: infospace__create-note");
    const script = { ...SCRIPT, 2: [[["infospace__create-note", { value: "v" }]], end] } as const;
    const tools = ["infospace__*", "skill__*", "note__*"];
    const policy = {
      actors: [
        { name: "default", tools: ["*"] },
        { name: "other", tools },
      ],
    };
    const folder = createMethodFolder({ review: text });
    const slow = createScriptedModel(script, (step) => (step === "2" ? new Promise(() => {}) : undefined));
    const qm = await folder.open(slow, { ...noWorker, policy });
    await qm.invoke("skill__review", args, { caller, timeoutMs: 500 });
    await qm.close();

    const next = await folder.open(createScriptedModel(script), { ...noWorker, policy });
    expect(await review(next)).toMatchObject({ status: "done" });

    expect(await next.notes.get("note__1", caller)).toMatchObject({ handle: "note__1" });
    // It may use the action that made the note, but not the one that its text may come from.
    const other = next.notes.get("note__1", { actor: "other", session: "s" });
    await expect(other).rejects.toMatchObject({ code: "not_found" });
  });

  test("that ran after an approval are not asked about again under another policy", async () => {
    const folder = createMethodFolder();
    const qm = await folder.open(createScriptedModel(SCRIPT), noWorker);
    const waiting = await review(qm);
    if (waiting.status !== "waiting") expect.fail(waiting.value);
    await qm.approvals.answer(waiting.approval.id, { decision: "approved" }, approver);
    await qm.approvals.run();
    qm.usePolicy({ rules: [{ name: "new", rule: "tool.name == 'tool__other'", effect: "deny" }] });

    expect(await review(qm)).toMatchObject({ status: "done", data: { outcome: "success" } });
    expect(folder.effects).toEqual(["ann"]);
  });

  test("are shown to the caller as progress of the steps", async () => {
    const messages: (string | undefined)[] = [];
    const dialogue = {
      owner: "o",
      capabilities: {},
      progress: ({ message }: { message?: string }) => messages.push(message),
      log: () => {},
      ask: async () => ({}),
    };
    const model = createScriptedModel({ 1: [[["finish_step"]]], 2: [end] });
    const qm = await createMethodFolder().open(model);

    await qm.invoke("skill__review", args, { caller, dialogue });

    expect(messages).toEqual(["step 1 of 5: Read it", "step 2 of 5: Find"]);
  });
});

describe("a cancelled method", () => {
  test("that waits ends, and withdraws its question", async () => {
    const folder = createMethodFolder();
    const qm = await folder.open(createScriptedModel(SCRIPT), noWorker);
    const waiting = await review(qm);
    if (waiting.status !== "waiting") expect.fail(waiting.value);
    const [run] = await qm.methods.list();

    expect(await qm.methods.cancel(run?.id ?? "")).toMatchObject({ state: "cancelled" });

    expect(await qm.approvals.get(waiting.approval.id)).toMatchObject({ state: "expired" });
    expect(await readEvents(qm, "method.ended")).toMatchObject([{ outcome: "cancelled" }]);
    await expect(qm.methods.cancel(run?.id ?? "")).rejects.toMatchObject({ code: "conflict" });
    await expect(qm.methods.cancel("none")).rejects.toMatchObject({ code: "not_found" });
    expect(await review(qm)).toMatchObject({ status: "waiting" });
    expect(await readEvents(qm, "method.started")).toHaveLength(2);
  });

  test("stops during a request, by its caller or by its id", async () => {
    const wait = (_step: string, _at: number, _request: unknown, signal: AbortSignal) =>
      new Promise<void>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const model = createScriptedModel({ 1: [] }, wait);
    const qm = await createMethodFolder().open(model, noWorker);
    const controller = new AbortController();
    const first = qm.invoke("skill__review", args, { caller, signal: controller.signal });
    await vi.waitFor(() => expect(model.requests).toHaveLength(1));
    controller.abort();
    expect(await first).toMatchObject({ status: "failed", error: { code: "cancelled" } });
    await vi.waitFor(async () => expect(await qm.methods.list()).toMatchObject([{ state: "cancelled" }]));

    const second = review(qm);
    await vi.waitFor(() => expect(model.requests).toHaveLength(2));
    const [run] = await qm.methods.list({ state: "running" });
    await qm.methods.cancel(run?.id ?? "");
    expect(await second).toMatchObject({ status: "failed", error: { code: "cancelled" } });
  });

  test("is not one whose process closes or that times out: that one goes on at its step", async () => {
    const folder = createMethodFolder();
    const wait = (step: string, _at: number, _request: unknown, signal: AbortSignal) =>
      step === "2"
        ? new Promise<void>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)))
        : undefined;
    const slow = createScriptedModel(SCRIPT, wait);
    const qm = await folder.open(slow, noWorker);
    const late = await qm.invoke("skill__review", args, { caller, timeoutMs: 500 });
    expect(late).toMatchObject({ status: "failed", error: { code: "timed_out" } });
    await vi.waitFor(async () => expect(await qm.methods.list()).toMatchObject([{ state: "running", step: 2 }]));

    const again = review(qm);
    await vi.waitFor(() => expect(slow.requests.length).toBeGreaterThan(3));
    await qm.close();
    expect(await again).toMatchObject({ status: "failed", error: { code: "cancelled" } });

    const model = createScriptedModel(SCRIPT);
    const other = await folder.open(model, noWorker);
    expect(await other.methods.list()).toMatchObject([{ state: "running", canContinue: true }]);
    expect(await review(other)).toMatchObject({ status: "waiting" });
    expect(model.requests[0]?.messages[0]).toMatchObject({ text: expect.stringContaining("1. Read it: one page") });
    expect(await readEvents(other, "method.started")).toHaveLength(1);
  });
});

test("the example of the guide runs as it stands", async () => {
  const guide = readFileSync(join(import.meta.dirname, "../docs/guides/write-skills.md"), "utf8");
  const example = /````markdown\n(---\nname: review-contract\n.*?)````/s.exec(guide)?.[1] ?? "";
  const model = createScriptedModel({
    1: [[["finish_step", { result: "Ann and Bob" }]]],
    2: [
      [["infospace__create-note", { value: ["no date"] }]],
      [["set_export", { name: "findings", handle: "note__1" }], ["finish_step"]],
    ],
    3: [
      [
        ["set_export", { name: "summary", value: "Add a date." }],
        ["end_method", { outcome: "success" }],
      ],
    ],
  });
  const qm = await createMethodFolder({ "review-contract": example }).open(model);

  const done = await qm.invoke("skill__review-contract", { contract: "Ann pays Bob." }, { caller });

  expect(done).toMatchObject({ status: "done", data: { outcome: "success", steps_done: 3 } });
  expect(qm.describe("skill__review-contract").metadata).toMatchObject({ type: "method" });
  expect(model.requests[1]?.tools?.map(({ name }) => name)).toContain("infospace__create-note");
  expect(model.requests[1]?.tools?.map(({ name }) => name)).not.toContain("infospace__map");
});
