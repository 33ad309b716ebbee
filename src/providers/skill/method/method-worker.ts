import { repeatEvery } from "../../../core/async.ts";
import type { Caller } from "../../../core/caller.ts";
import { type ErrorCode, getErrorMessage } from "../../../core/errors.ts";
import type { JsonObject } from "../../../core/json.ts";
import type { Outcome } from "../../../core/outcome.ts";
import type { Runtime } from "../../../core/runtime.ts";
import type { MethodRunSummary } from "./method-run.ts";
import type { MethodRuns } from "./method-runs.ts";

const POLL_MS = 5_000;
const RETRY_MS = 60_000;
/** Errors that say nothing about the method itself, so that it can go on later. */
const TRANSIENT: ReadonlySet<ErrorCode> = new Set([
  "budget_exceeded",
  "cancelled",
  "conflict",
  "internal",
  "ledger_failed",
  "overloaded",
  "store_failed",
  "timed_out",
]);

export interface MethodCallRequest {
  readonly id: string;
  readonly name: string;
  readonly args: JsonObject;
  readonly caller: Caller;
  readonly via: string;
}

export type MethodWorker = ReturnType<typeof createMethodWorker>;

/** Continues runs whose approval was answered, and runs whose process is gone, as calls of the same caller. */
export function createMethodWorker(options: {
  readonly runs: Pick<MethodRuns, "get" | "listFree" | "fail">;
  readonly runtime: Runtime;
  /** Whether the action is in this process. Another one may have it. */
  knows(action: string): boolean;
  /** Whether an approval no longer waits: its call ran, was denied or has expired. */
  isAnswered(approvalId: string): Promise<boolean>;
  call(request: MethodCallRequest): Promise<Outcome>;
  readonly onProblem: (problem: string) => void;
}) {
  const { runs, runtime } = options;
  const running = new Map<string, Promise<void>>();
  const ownCalls = new Set<string>();
  const notBefore = new Map<string, number>();
  /** Approvals of the method itself that a continuation asked for. */
  const asked = new Map<string, string>();
  let isClosed = false;

  async function isDue({ id, action, approvalId, state }: MethodRunSummary): Promise<boolean> {
    if (running.has(id) || !options.knows(action) || (notBefore.get(id) ?? 0) > runtime.now().getTime()) return false;
    const open = [asked.get(id), state === "waiting" ? approvalId : undefined].filter((each) => each !== undefined);
    for (const each of open) if (!(await options.isAnswered(each))) return false;
    return true;
  }

  async function continueRun(run: MethodRunSummary): Promise<void> {
    const { id, action, caller } = run;
    const callId = runtime.newId();
    ownCalls.add(callId);
    try {
      const { args } = await runs.get(id);
      const outcome = await options.call({ id: callId, name: action, args, caller, via: "method" });
      notBefore.set(id, runtime.now().getTime() + RETRY_MS);
      asked.delete(id);
      if (outcome.status === "waiting") {
        notBefore.delete(id);
        if (outcome.approval.inner === undefined) asked.set(id, outcome.approval.id);
      } else if ("error" in outcome && !TRANSIENT.has(outcome.error.code)) {
        const { code, error, hint: _, ...details } = outcome.error;
        // It has no effect on a run that its handler has ended.
        await runs.fail(run, { error: { code, message: error, details } });
      }
    } catch (thrown) {
      options.onProblem(`run ${id} of ${action} could not be continued: ${getErrorMessage(thrown)}`);
    } finally {
      ownCalls.delete(callId);
      running.delete(id);
    }
  }

  async function poll(): Promise<void> {
    try {
      for (const run of await runs.listFree())
        if (!isClosed && (await isDue(run))) running.set(run.id, continueRun(run));
      for (const [id, at] of notBefore) if (at <= runtime.now().getTime()) notBefore.delete(id);
    } catch (thrown) {
      options.onProblem(`methods could not be continued: ${getErrorMessage(thrown)}`);
    }
  }

  const polling = repeatEvery(POLL_MS, poll);
  return {
    isOwnCall: (callId: string): boolean => ownCalls.has(callId),
    start: polling.start,
    /** Polls now, because an approval may have been answered. */
    nudge: polling.nudge,
    async close(): Promise<void> {
      isClosed = true;
      await polling.close();
      await Promise.allSettled(running.values());
    },
  };
}
