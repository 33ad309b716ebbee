import { repeatEvery } from "../core/async.ts";
import { getErrorMessage } from "../core/errors.ts";
import { SYSTEM_SESSION } from "../core/events.ts";
import { isRecord } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import type { CallProcess, EventStore, StoredEvent } from "../ledger/event-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { systemProcess } from "./system-runtime.ts";

const EVERY_MS = 60_000;
/** A process of another machine cannot be asked whether it lives. No call runs this long. */
const LONGEST_CALL_MS = 24 * 60 * 60 * 1000;

/** Records the end of calls whose process died, now and every minute. It runs nothing again. */
export function createInterruptedCalls(parts: {
  readonly store: Pick<EventStore, "takeUnfinished">;
  readonly ledger: Pick<Ledger, "read" | "record" | "flush">;
  readonly runtime: Runtime;
  readonly onProblem: (problem: string) => void;
}) {
  const { store, ledger, runtime, onProblem } = parts;

  function isGone({ pid, host }: CallProcess, since: Date): boolean {
    if (host !== systemProcess.host) return runtime.now().getTime() - since.getTime() > LONGEST_CALL_MS;
    // In a container every start may have the same process number. A later call belongs to another thread of this process.
    return pid === systemProcess.pid ? since < systemProcess.startedAt : !systemProcess.isAlive(pid);
  }

  async function reportOne(callId: string): Promise<void> {
    // Retention may have removed what was recorded of it.
    const [decided] = await ledger.read({ callId, type: "call.decided", limit: 1 });
    const [delegated] = await ledger.read({ callId, type: "delegation.started", limit: 1 });
    const task = isRecord(delegated?.data) ? `; ask the peer about its task ${delegated.data.task}` : "";
    const reason = `its process ended while it ran; it may have had its effect${task}`;
    const end = {
      callId,
      status: "failed",
      code: "interrupted",
      reason,
      durationMs: 0,
      bytes: 0,
      result: null,
    } as const;
    const action = decided?.action ?? "an unknown action";
    const caller = decided === undefined ? { session: SYSTEM_SESSION } : readCallerFields(decided);
    ledger.record({ type: "call.ended", at: runtime.now(), ...caller, data: { ...end, action } });
    onProblem(`call ${callId} of ${action} was interrupted: ${reason}`);
  }

  async function run(): Promise<void> {
    try {
      for (const callId of await store.takeUnfinished(isGone)) await reportOne(callId);
      await ledger.flush();
    } catch (thrown) {
      onProblem(`interrupted calls could not be reported: ${getErrorMessage(thrown)}`);
    }
  }

  return repeatEvery(EVERY_MS, run);
}

/** The caller of a recorded event. */
function readCallerFields({ session, actor, tenant, turn, user, person }: StoredEvent) {
  const fields = Object.entries({ actor, tenant, turn, user, person }).filter(([, value]) => value !== null);
  return { session, ...(Object.fromEntries(fields) as Readonly<Record<string, string>>) };
}
