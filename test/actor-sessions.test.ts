import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Runtime } from "../src/index.ts";
import { answerAll, openWorkplace } from "./fixtures/actor-workplace.ts";
import { respondWith } from "./fixtures/scripted-actor.ts";
import { readLastResults } from "./fixtures/scripted-method.ts";

const caller = { session: "s" };

function createStore(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-actors-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "store.db");
}

test("a session has one turn at a time for each actor", async () => {
  const actors = ["clerk", "teller"].map((name) => ({ name, tools: ["*"] }));
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const { qm } = await openWorkplace(
    { slow: ["Slow."], quick: ["Quick."] },
    { policy: { actors } },
    async ({ messages }) => {
      if (JSON.stringify(messages.at(-1)).includes("slow")) {
        arrive();
        await held;
      }
    },
  );
  const slow = qm.callActor("clerk", "slow", { caller });
  await arrived;

  await expect(qm.callActor("clerk", "quick", { caller })).rejects.toMatchObject({
    code: "conflict",
    hint: expect.stringContaining("Try again"),
  });
  await expect(qm.sessions.remove("s")).rejects.toMatchObject({ code: "conflict" });
  expect(await qm.sessions.get("s")).toMatchObject({
    turn: { state: "running", messages: [{ text: "slow" }] },
    history: [],
  });
  expect(await qm.callActor("teller", "quick", { caller })).toMatchObject({ turnState: "complete" });
  expect(await qm.callActor("clerk", "quick", { caller: { session: "s", tenant: "acme" } })).toMatchObject({
    turnState: "complete",
  });
  release();

  expect(await slow).toMatchObject({ turnState: "complete", parts: [{ text: "Slow." }] });
  expect(await qm.callActor("clerk", "quick", { caller })).toMatchObject({ turnState: "complete" });
  expect(
    (await qm.sessions.list({ session: "s" })).map(({ actor, tenant = "" }) => `${actor} ${tenant}`).sort(),
  ).toEqual([...["clerk ", "clerk acme", "teller "]]);
});

test("only one of many messages at the same time gets the session", async () => {
  const { qm } = await openWorkplace({ go: ["Done."] });

  const all = await Promise.allSettled(Array.from({ length: 8 }, () => qm.callActor("clerk", "go", { caller })));

  const refused = all.filter(({ status }) => status === "rejected");
  for (const each of refused) expect(each).toMatchObject({ reason: { code: "conflict" } });
  expect((await qm.sessions.get("s")).messages).toBe(2 * (8 - refused.length));
});

test("lists sessions and messages by pages", async () => {
  const { qm } = await openWorkplace({ go: ["Done."] });
  for (const session of ["a", "b", "c"]) await qm.callActor("clerk", "go", { caller: { session } });

  const names = async (query: object) => (await qm.sessions.list(query)).map(({ session }) => session);
  expect(await names({ limit: 2 })).toEqual(["c", "b"]);
  expect(await names({ limit: 2, offset: 2 })).toEqual(["a"]);
  expect(await names({ actor: "teller" })).toEqual([]);
  const page = await qm.sessions.get("a", { after: 1, limit: 5 });
  expect(page).toMatchObject({ messages: 2, history: [{ seq: 2, message: { role: "assistant", text: "Done." } }] });
});

test("another process continues a suspended turn by its session, and its token is used up", async () => {
  const store = createStore();
  const script = { go: [[["tool__pay"]], [respondWith("Paid.")]] } as const;
  const one = await openWorkplace(script, { store });
  const { resumeToken = "" } = await one.qm.callActor("clerk", "go", { caller });
  const other = await openWorkplace(script, { store });

  expect(await other.qm.sessions.get("s")).toMatchObject({
    turn: { state: "suspended", approvals: [expect.any(String)] },
  });
  expect(await other.qm.sessions.resume("s")).toMatchObject({ turnState: "suspended", steps: 1 });
  await answerAll(one.qm);
  expect(await other.qm.sessions.resume("s")).toMatchObject({ turnState: "complete", parts: [{ text: "Paid." }] });

  await expect(one.qm.resumeActor(resumeToken)).rejects.toMatchObject({ code: "not_found" });
  await expect(other.qm.sessions.resume("s")).rejects.toMatchObject({ code: "conflict" });
});

test("a turn that is running when its process closes can be continued at once", async () => {
  const store = createStore();
  let isOpen = true;
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const script = { go: [[["tool__look"]], "Done."] } as const;
  const one = await openWorkplace(script, { store }, (_request, at, signal) => {
    if (at === 0 || !isOpen) return undefined;
    arrive();
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  const left = one.qm.callActor("clerk", "go", { caller });
  await arrived;
  isOpen = false;
  await one.qm.close();

  expect(await left).toMatchObject({ turnState: "failed", error: { code: "interrupted" } });

  const other = await openWorkplace(script, { store });
  expect(await other.qm.sessions.get("s")).toMatchObject({ turn: { state: "interrupted" } });
  expect(await other.qm.sessions.resume("s")).toMatchObject({ turnState: "complete", parts: [{ text: "Done." }] });
  expect([one.ran, other.ran]).toEqual([["look 0"], []]);
});

test.each([
  ["whose start cannot be recorded", "events", -1],
  ["whose end cannot be stored", "session_messages", 0],
] as const)("a turn %s does not keep the session", async (_, table, brokenAt) => {
  const store = createStore();
  const db = new DatabaseSync(store);
  onTestFinished(() => db.close());
  // The system may have a transaction open.
  const rename = (from: string, to: string) =>
    vi.waitFor(() => db.exec(`alter table ${from} rename to ${to}`), { timeout: 10_000, interval: 5 });
  let isBroken = false;
  const breakTable = async (at: number) => {
    if (isBroken || at !== brokenAt) return;
    isBroken = true;
    await rename(table, "broken");
  };
  const options = { store, approvals: { worker: false } };
  const { qm } = await openWorkplace({ hello: ["Hello."] }, options, (_request, at) => breakTable(at));
  await breakTable(-1);
  const first = await qm.callActor("clerk", "hello", { caller }).catch(() => ({ turnState: "failed" }));
  await rename("broken", table);

  expect(first).toMatchObject({ turnState: "failed" });
  expect(await qm.callActor("clerk", "hello", { caller })).toMatchObject({ turnState: "complete" });
});

test("a cancelled turn withdraws its calls", async () => {
  const { qm, ran } = await openWorkplace({ go: [[["tool__pay"], ["tool__look"]]], more: ["More."] });
  const { resumeToken = "" } = await qm.callActor("clerk", "go", { caller });

  expect(await qm.sessions.cancel("s")).toBe(true);

  expect(await qm.sessions.cancel("s")).toBe(false);
  expect((await qm.approvals.list({ state: "pending" })).length).toBe(0);
  await expect(qm.resumeActor(resumeToken)).rejects.toMatchObject({ code: "not_found" });
  expect(await qm.callActor("clerk", "more", { caller })).toMatchObject({ turnState: "complete" });
  const { history } = await qm.sessions.get("s");
  const results = history.flatMap(({ message }) => (message.role === "tool" ? message.results : []));
  expect(results.map(({ text }) => text)).toEqual([
    expect.stringContaining("the turn was cancelled"),
    '{"did":"look","at":0}',
  ]);
  expect(ran).toEqual(["look 0"]);
});

test("a turn that is cancelled while one call waits and another one runs withdraws the first", async () => {
  const stop = new AbortController();
  const { qm, ran } = await openWorkplace({ go: [[["tool__pay"], ["tool__stop"]]] });
  qm.register({
    name: "stop",
    description: "Stops the turn when a person is asked.",
    inputSchema: { type: "object" },
    scope: "generalist",
    effect: "read",
    async handler() {
      await vi.waitFor(async () => expect(await qm.approvals.list()).toHaveLength(1));
      stop.abort();
    },
  });

  const envelope = await qm.callActor("clerk", "go", { caller, signal: stop.signal });

  expect(envelope).toMatchObject({ turnState: "cancelled" });
  expect(await qm.approvals.list({ state: "pending" })).toEqual([]);
  expect(ran).toEqual([]);
});

test("a running turn is cancelled by its session", async () => {
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const { qm } = await openWorkplace({ go: ["Never."] }, {}, (_request, _at, signal) => {
    arrive();
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  const running = qm.callActor("clerk", "go", { caller });
  await arrived;

  expect(await qm.sessions.cancel("s")).toBe(true);

  expect(await running).toMatchObject({ turnState: "cancelled" });
});

test("a turn that expired is closed by the next message, which tells the model of it", async () => {
  let offset = 0;
  const now = () => new Date(Date.now() + offset);
  let ids = 0;
  const runtime: Runtime = { now, elapsed: () => performance.now(), newId: () => `id-${ids++}-${Math.random()}` };
  const { qm, model, ran } = await openWorkplace({ go: [[["tool__pay"]], "Paid."], more: ["More."] }, { runtime });
  const { resumeToken = "", resumeExpiresAt = "" } = await qm.callActor("clerk", "go", { caller });
  offset = Date.parse(resumeExpiresAt) - Date.now() + 1;

  await expect(qm.resumeActor(resumeToken)).rejects.toMatchObject({
    code: "conflict",
    message: expect.stringContaining("until"),
  });
  expect(await qm.callActor("clerk", "more", { caller })).toMatchObject({ turnState: "complete" });

  expect(readLastResults(model.requests[1])).toEqual([expect.stringContaining("approval_expired")]);
  expect(ran).toEqual([]);
  expect(await qm.ledger.read({ type: "turn.interrupted" })).toHaveLength(1);
});

test("the token of a host's own turn is left to that host", async () => {
  const { qm } = await openWorkplace({});
  const turn = await qm.turns.begin({ actor: "clerk", session: "s" });
  turn.noted("one", await qm.invoke("tool__pay", {}, { caller: turn.caller }));
  const { resumeToken } = await turn.suspend({ mine: true });

  await expect(qm.resumeActor(resumeToken)).rejects.toMatchObject({ code: "not_found", hint: "Use turns.resume." });

  expect((await qm.turns.resume(resumeToken)).state).toBe("suspended");
});
