import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { cleanUp, createTestFolder } from "../src/cli/testing.ts";
import { isRecord } from "../src/core/json.ts";
import { createQuartermaster, type Quartermaster } from "../src/index.ts";
import type { A2aVisit } from "./fixtures/a2a-process.ts";
import { ANN_TOKEN } from "./fixtures/a2a-world.ts";
import { findCompiled } from "./support/compiled.ts";
import { runSql } from "./support/run-sql.ts";

afterEach(cleanUp);

function start(given: A2aVisit) {
  const script = findCompiled(new URL("fixtures/a2a-process.ts", import.meta.url));
  const child = spawn(process.execPath, [script, JSON.stringify(given)], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

/** Starts a process that answers other agents, and returns its address. */
async function serve(folder: string, port = 0, other?: string) {
  const child = start({ serve: { folder, port, ...(other === undefined ? {} : { other }) } });
  const [url] = (await once(createInterface(child.stdout), "line")) as [string];
  return { child, url, port: Number(new URL(url).port) };
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, "close");
  child.kill("SIGKILL");
  await gone;
}

async function openCaller(url: string, store = ":memory:") {
  const headers = () => ({ authorization: `Bearer ${ANN_TOKEN}` });
  const quartermaster = await createQuartermaster({ store, peers: { world: { url, headers } } });
  onTestFinished(() => quartermaster.close());
  return quartermaster;
}

function readEffects(folder: string): readonly string[] {
  try {
    return readFileSync(join(folder, "effects.txt"), "utf8").trim().split("\n");
  } catch {
    return [];
  }
}

/** Waits until the caller knows the task of its message. */
const waitForTask = (caller: Quartermaster) =>
  vi.waitFor(
    async () => {
      const [started] = await caller.ledger.read({ type: "delegation.started" });
      expect(isRecord(started?.data)).toBe(true);
      return isRecord(started?.data) ? String(started.data.task) : "";
    },
    { timeout: 10_000 },
  );

const callSkill = (skill: string, text: string) => ({ data: { skill, arguments: { text } } });

describe("a peer that is killed", () => {
  test("while it runs a task reports after its restart that it was interrupted, and runs nothing again", async () => {
    const folder = await createTestFolder({});
    const { child, url, port } = await serve(folder);
    const caller = await openCaller(url);

    const calling = caller.invoke("agent.peer__world", callSkill("tool__hold", "once"));
    await waitForTask(caller);
    await vi.waitFor(() => expect(readEffects(folder)).toEqual(["hold once"]), { timeout: 10_000 });
    await kill(child);
    await serve(folder, port);
    const outcome = await calling;

    expect(outcome).toMatchObject({
      status: "failed",
      error: { code: "action_failed", error: expect.stringContaining("Its process ended while it ran") },
    });
    expect(readEffects(folder)).toEqual(["hold once"]);
  });

  test("while a person is asked continues after its restart, when the person approves", async () => {
    const folder = await createTestFolder({});
    const { child, url, port } = await serve(folder);
    const caller = await openCaller(url);
    const person = await createQuartermaster({ store: join(folder, "store.db"), approvals: { worker: false } });
    onTestFinished(() => person.close());

    const calling = caller.invoke("agent.peer__world", callSkill("tool__pay", "5"));
    await waitForTask(caller);
    const [asked] = await vi.waitFor(
      async () => {
        const found = await person.approvals.list({ state: "pending" });
        expect(found).toHaveLength(1);
        return found;
      },
      { timeout: 10_000 },
    );
    await kill(child);
    await serve(folder, port);
    expect(readEffects(folder)).toEqual([]);
    await person.approvals.answer(
      asked?.id ?? "",
      { decision: "approved" },
      { id: "eve", roles: ["user"], via: "test" },
    );

    expect(await calling).toMatchObject({
      status: "done",
      data: { state: "completed", parts: [{ data: { paid: "5" } }] },
    });
    expect(readEffects(folder)).toEqual(["pay 5"]);
  });
});

test("an exposed actor whose process is killed goes on with its turn, and runs nothing twice", async () => {
  const folder = await createTestFolder({});
  const { child, url, port } = await serve(folder);
  const caller = await openCaller(url);

  const calling = caller.invoke("agent.peer__world", { message: "hold it" });
  await waitForTask(caller);
  await vi.waitFor(() => expect(readEffects(folder)).toEqual(["hold clerk"]), { timeout: 10_000 });
  await kill(child);
  await serve(folder, port);

  expect(await calling).toMatchObject({ status: "done", data: { state: "completed", text: "Held, I think." } });
  expect(readEffects(folder)).toEqual(["hold clerk"]);
});

test("an exposed actor that had answered when its process was killed does not begin again", async () => {
  const folder = await createTestFolder({ release: "" });
  const { child, url, port } = await serve(folder);
  const caller = await openCaller(url);
  // The answer of the actor cannot be stored with the task before the process is killed.
  runSql(
    join(folder, "store.db"),
    `create trigger full before update on peer_tasks when new.state = 'completed'
      begin select raise(abort, 'the disk is full'); end`,
  );

  const calling = caller.invoke("agent.peer__world", { message: "hold it" });
  const store = await createQuartermaster({ store: join(folder, "store.db"), approvals: { worker: false } });
  onTestFinished(() => store.close());
  await vi.waitFor(
    async () => {
      const ended = await store.ledger.read({ type: "call.ended", action: "agent.peer__clerk" });
      expect(ended).toHaveLength(1);
    },
    { timeout: 10_000 },
  );
  await kill(child);
  runSql(join(folder, "store.db"), "drop trigger full");
  await serve(folder, port);

  expect(await calling).toMatchObject({
    status: "failed",
    error: { error: expect.stringContaining("Its process ended while it ran") },
  });
  expect(readEffects(folder)).toEqual(["hold clerk"]);
});

test("two processes that delegate to each other for ever come to an end", async () => {
  const [one, two] = [await createTestFolder({}), await createTestFolder({})];
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  const first = await serve(one, 0, `http://127.0.0.1:${port}`);
  await serve(two, port, first.url);
  const caller = await openCaller(first.url);

  const outcome = await caller.invoke("agent.peer__world", { message: "go" });

  expect(outcome).toMatchObject({ status: "done", data: { state: "completed", text: "Enough." } });
  const turns = await Promise.all(
    [one, two].map(async (folder) => {
      const ledger = await createQuartermaster({ store: join(folder, "store.db"), approvals: { worker: false } });
      onTestFinished(() => ledger.close());
      return (await ledger.ledger.read({ type: "turn.started" })).map(({ data }) => (data as { hops: number }).hops);
    }),
  );
  expect(turns.flat().sort()).toEqual([2, 4]);
});

test("a caller that is killed finds its task again, and sends nothing twice", async () => {
  const folder = await createTestFolder({});
  const store = join(folder, "caller.db");
  const { url } = await serve(folder);

  const child = start({ call: { store, url, args: callSkill("tool__hold", "once") } });
  const watching = await createQuartermaster({ store, approvals: { worker: false } });
  onTestFinished(() => watching.close());
  const task = await waitForTask(watching);
  await kill(child);
  const caller = await openCaller(url, store);
  const [ended] = await vi.waitFor(async () => {
    const found = await caller.ledger.read({ type: "call.ended" });
    expect(found).toHaveLength(1);
    return found;
  });
  writeFileSync(join(folder, "release"), "");
  const outcome = await caller.invoke("agent.peer__world", { task });

  expect(ended?.data).toMatchObject({ code: "interrupted", reason: expect.stringContaining(`its task ${task}`) });
  expect(outcome).toMatchObject({ status: "done", data: { state: "completed", parts: [{ data: { held: "once" } }] } });
  expect(readEffects(folder)).toEqual(["hold once"]);
});
