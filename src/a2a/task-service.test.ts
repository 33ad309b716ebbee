import { join } from "node:path";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { createQuartermaster } from "../app/quartermaster.ts";
import { cleanUp, createTestFolder } from "../cli/testing.ts";
import { openSqliteStore } from "../store/open-store.ts";
import type { NewPeerTask } from "./peer-task.ts";

afterEach(cleanUp);

const caller = { actor: "default", session: "a2a:ann:c", user: { id: "peer:ann" }, hops: 1 };
/** A process that ended long ago. */
const gone = { id: "gone", pid: 2 ** 30, host: "elsewhere", leaseUntil: new Date(0) };

/** A quartermaster with tools, and its store with one task that a dead process has left. */
async function openWithLeftTask(
  prepare: (qm: Awaited<ReturnType<typeof createQuartermaster>>) => Promise<Partial<NewPeerTask>>,
) {
  const path = join(await createTestFolder({}), "store.db");
  const ran: string[] = [];
  const quartermaster = await createQuartermaster({ store: path });
  onTestFinished(() => quartermaster.close());
  for (const [name, effect, requiresApproval] of [
    ["read", "read", false],
    ["send", "external", false],
    ["pay", "external", true],
  ] as const)
    quartermaster.register({
      name,
      effect,
      requiresApproval,
      description: `Something to ${name}.`,
      scope: "generalist",
      inputSchema: { type: "object" },
      handler() {
        ran.push(name);
        return name;
      },
    });
  const message = { id: "m", role: "client", parts: [{ text: "hello" }] } as const;
  const task = {
    id: "t",
    client: "ann",
    context: "c",
    action: "tool__send",
    args: {},
    caller,
    callId: "unknown",
    message,
  };
  const store = await openSqliteStore(path, { now: () => new Date() });
  await store.peerTasks.add({ ...task, holder: gone, at: new Date(), ...(await prepare(quartermaster)) }, 10);
  await store.close();
  const tasks = await quartermaster.peers.openTasks();
  onTestFinished(() => tasks.close());
  tasks.start();
  const waitFor = (state: string) =>
    vi.waitFor(async () => {
      const found = await tasks.get("ann", "t");
      expect(found.state).toBe(state);
      return found;
    });
  return { quartermaster, tasks, ran, waitFor };
}

const call = async (qm: Parameters<Parameters<typeof openWithLeftTask>[0]>[0], name: string) => {
  const { callId } = await qm.invoke(name, {}, { caller, via: "a2a" });
  return { action: name, callId };
};

test("a task whose call had not begun is run", async () => {
  const { ran, waitFor } = await openWithLeftTask(async () => ({}));

  expect(await waitFor("completed")).toMatchObject({ result: [{ text: "send" }] });
  expect(ran).toEqual(["send"]);
});

test("a task whose call may have had its effect is reported, and not run again", async () => {
  const { ran, waitFor } = await openWithLeftTask((qm) => call(qm, "tool__send"));

  expect(await waitFor("failed")).toMatchObject({ status: expect.stringContaining("may have had its effect") });
  expect(ran).toEqual(["send"]);
});

test("a task whose call only reads is run again", async () => {
  const { ran, waitFor } = await openWithLeftTask((qm) => call(qm, "tool__read"));

  await waitFor("completed");
  expect(ran).toEqual(["read", "read"]);
});

test("a task whose call asked a person waits for that person, and is run once", async () => {
  const { quartermaster, ran, waitFor } = await openWithLeftTask((qm) => call(qm, "tool__pay"));

  const { approval } = await waitFor("auth_required");
  const ann = { id: "ann", roles: ["user"], via: "test" };
  await quartermaster.approvals.answer(approval?.id ?? "", { decision: "approved" }, ann);

  expect(await waitFor("completed")).toMatchObject({ result: [{ text: "pay" }] });
  expect(ran).toEqual(["pay"]);
  expect(await quartermaster.approvals.list()).toHaveLength(1);
});
