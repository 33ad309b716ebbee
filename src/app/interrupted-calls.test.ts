import { expect, test } from "vitest";
import type { CallProcess } from "../ledger/event-store.ts";
import { createInterruptedCalls } from "./interrupted-calls.ts";
import { systemProcess, systemRuntime } from "./system-runtime.ts";

async function judge(owner: Partial<CallProcess>, since: Date): Promise<boolean | undefined> {
  let verdict: boolean | undefined;
  const calls = createInterruptedCalls({
    store: {
      async takeUnfinished(isGone) {
        verdict = isGone({ id: "other", pid: systemProcess.pid, host: systemProcess.host, ...owner }, since);
        return [];
      },
    },
    ledger: { read: async () => [], record: () => 0, flush: async () => {} },
    runtime: systemRuntime,
    onProblem: expect.fail,
  });
  calls.start();
  await calls.close();
  return verdict;
}

test("a call of another thread of this process is not interrupted", async () => {
  expect(await judge({}, new Date())).toBe(false);
});

test("a call of an earlier process with the same number is interrupted", async () => {
  expect(await judge({}, new Date(systemProcess.startedAt.getTime() - 1))).toBe(true);
});

test("a call of a process on another machine is interrupted after a day", async () => {
  expect(await judge({ host: "elsewhere" }, new Date())).toBe(false);
  expect(await judge({ host: "elsewhere" }, new Date(Date.now() - 25 * 60 * 60 * 1000))).toBe(true);
});
