import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import type { CallFacts } from "../policy/call-facts.ts";
import {
  createEventDelivery,
  type EventOrigin,
  type RecordRoutingEvent,
  recordRouted,
  requireNextDepth,
  TOOL_CALL,
  TOOL_RESULT,
} from "./event.ts";
import type { CompiledRoute, RouteTable } from "./rules.ts";
import { type AbortableTask, cancelledError, type RunningTasks, runWithRetries } from "./running-tasks.ts";
import type { EventDelivery, Subscribers } from "./subscribers.ts";

/** A call that was decided on and is now to run. */
export interface RoutedCall {
  readonly callId: string;
  readonly action: Action;
  /** As the handler gets them. */
  readonly args: JsonObject;
  readonly caller: Caller;
  /** Cancels it. */
  readonly signal?: AbortSignal | undefined;
  /** How long the caller waits, for all tries together. */
  readonly timeoutMs?: number | undefined;
  /** There is one try, whatever a rule says: a person agreed to one. */
  readonly once?: boolean | undefined;
}

/** How a call is to be run. */
export interface AttemptLimits {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

export interface DispatchOptions {
  readonly runtime: Runtime;
  readonly note: RecordRoutingEvent;
  readonly say: (problem: string) => void;
  readonly factsOf: (call: RoutedCall) => CallFacts;
  readonly rules: () => RouteTable;
  readonly subscribers: Subscribers;
  readonly underWay: RunningTasks;
  readonly depth: () => number | undefined;
}

export function createDispatch(parts: DispatchOptions) {
  const { runtime, note, say, subscribers, underWay } = parts;

  function findRule(call: RoutedCall): CompiledRoute | undefined {
    const rules = parts.rules();
    if (rules.labels.length === 0) return undefined;
    const { source, type } = toHeading(call, TOOL_CALL);
    return rules.firstForCall(source, type, () => {
      const { tool, actor, ctx } = parts.factsOf(call);
      return { event: { source, type, data: call.args }, tool, actor, ctx };
    });
  }

  /** Costs next to nothing while nobody has subscribed and no rule took part. */
  function announce(call: RoutedCall, prefix: string, data: unknown, rule?: CompiledRoute): void {
    if (rule === undefined && subscribers.size === 0) return;
    const { caller, callId } = call;
    const origin: EventOrigin = { heading: toHeading(call, prefix), caller, callId, rule };
    const told = subscribers.matching(origin.heading);
    const delivery = told.length === 0 ? undefined : tryCreateDelivery(origin, data);
    if (delivery !== undefined) {
      recordRouted(note, delivery.event.id, origin, told.length);
      for (const subscriber of told) subscriber.deliver(delivery);
    } else if (rule !== undefined) {
      recordRouted(note, runtime.newId(), origin, 0);
    }
  }

  /** Nothing where the data cannot be shown to anybody: that is no reason not to run the call. */
  function tryCreateDelivery(origin: EventOrigin, data: unknown): EventDelivery | undefined {
    const depth = requireNextDepth(parts.depth(), origin.heading.type);
    try {
      return createEventDelivery(runtime, origin, data, depth);
    } catch (thrown) {
      say(`nobody was told of ${origin.heading.type} of call ${origin.callId}: ${getErrorMessage(thrown)}`);
      return undefined;
    }
  }

  /** The call has ended: whatever goes wrong now cannot change how. */
  function announceResult(call: RoutedCall, started: number, failure?: { readonly thrown: unknown }): void {
    if (subscribers.size === 0) return;
    const durationMs = Math.max(0, runtime.elapsed() - started);
    const code = failure?.thrown instanceof QmError ? failure.thrown.code : "internal";
    const data = failure === undefined ? { status: "done", durationMs } : { status: "failed", code, durationMs };
    try {
      announce(call, TOOL_RESULT, data);
    } catch (thrown) {
      say(`nobody was told how call ${call.callId} ended: ${getErrorMessage(thrown)}`);
    }
  }

  return async function dispatch<T>(call: RoutedCall, run: (wish: AttemptLimits) => Promise<T>): Promise<T> {
    const { callId, action, caller, signal: outer, timeoutMs } = call;
    if (action.routing === "bypass") return run(toAttemptLimits(outer ?? new AbortController().signal, timeoutMs));
    underWay.refuseWhenClosed();
    const rule = findRule(call);
    announce(call, TOOL_CALL, call.args, rule);

    const started = runtime.elapsed();
    const left = () => (timeoutMs === undefined ? undefined : Math.ceil(timeoutMs - (runtime.elapsed() - started)));
    const attempt = (course: AbortableTask, number: number) =>
      run(toAttemptLimits(course.signal, number === 1 ? timeoutMs : left()));
    const onFailure = (failed: number, error: QmError, delayMs: number): boolean => {
      if (delayMs >= (left() ?? Number.POSITIVE_INFINITY)) return false;
      const data = {
        callId,
        action: action.name,
        attempt: failed,
        code: error.code,
        reason: getErrorMessage(error),
        delayMs,
      };
      note(caller, { type: "call.retried", data });
      return true;
    };
    const { deadlineMs } = rule ?? {};
    const retry = canRepeat(action) && call.once !== true ? rule?.retry : undefined;
    const createCancelledError = () => cancelledError(action.name);
    const options = {
      outer,
      cancelled: createCancelledError,
      deadlineMs,
      late: () => deadlineError(action, deadlineMs ?? 0),
    };
    const entry = { callId, action: action.name, actor: caller.actor, since: runtime.now() };
    return underWay.run(options, entry, async (course) => {
      try {
        const result = await runWithRetries(course, (number) => attempt(course, number), { retry, onFailure });
        announceResult(call, started);
        return result;
      } catch (thrown) {
        announceResult(call, started, { thrown });
        throw thrown;
      }
    });
  };
}

function toHeading({ action, caller }: RoutedCall, prefix: string) {
  const isPrivate = action.scope === "specialist";
  return { source: `actor:${caller.actor}`, type: prefix + action.name, actor: caller.actor, isPrivate };
}

/** Whether doing it twice is no worse than doing it once. */
function canRepeat({ effect, idempotent }: Action): boolean {
  return idempotent || effect === "pure" || effect === "read";
}

function toAttemptLimits(signal: AbortSignal, timeoutMs: number | undefined): AttemptLimits {
  return timeoutMs === undefined ? { signal } : { signal, timeoutMs };
}

function deadlineError(action: Action, ms: number): QmError {
  return new QmError("timed_out", `${action.name} did not end within the ${ms} ms that a routing rule gives it`, {
    hint: canRepeat(action)
      ? "Try again, or ask for less."
      : "It may still have had an effect: look before trying again.",
  });
}
