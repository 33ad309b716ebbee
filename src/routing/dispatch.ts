import { type Abortable, LazyAbortController } from "../core/abortable.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import type { CallFacts } from "../policy/call-facts.ts";
import * as events from "./event.ts";
import type { CompiledRoute, RouteTable } from "./rules.ts";
import { cancelledError, type RunningTasks, runWithRetries } from "./running-tasks.ts";
import type { EventDelivery, Subscribers } from "./subscribers.ts";

/** A call that was allowed and is about to run. */
export interface RoutedCall {
  readonly callId: string;
  readonly action: Action;
  /** As the handler gets them. */
  readonly args: JsonObject;
  readonly caller: Caller;
  readonly signal?: Abortable | undefined;
  /** For all attempts together. */
  readonly timeoutMs?: number | undefined;
  /** Never retry: a person approved one run. */
  readonly once?: boolean | undefined;
}

export type AttemptLimits = { readonly signal: Abortable; readonly timeoutMs?: number };

export interface RoutingServices {
  readonly runtime: Runtime;
  readonly record: events.RecordRoutingEvent;
  readonly report: (problem: string) => void;
  readonly getFacts: (call: RoutedCall) => CallFacts;
  readonly getRules: () => RouteTable;
  readonly subscribers: Subscribers;
  readonly tasks: RunningTasks;
  /** How many events led to the code that runs now. */
  readonly getDepth: () => number | undefined;
  readonly runAtDepth: (depth: number, work: () => unknown) => unknown;
}

export function createDispatch(services: RoutingServices) {
  const { runtime, record, report, getFacts, getRules, subscribers, tasks, getDepth } = services;

  function findRule(call: RoutedCall): CompiledRoute | undefined {
    const rules = getRules();
    if (rules.labels.length === 0) return undefined;
    const { source, type } = toHeading(call, events.TOOL_CALL);
    return rules.firstForCall(source, type, () => {
      const { tool, actor, ctx } = getFacts(call);
      return { event: { source, type, data: call.args }, tool, actor, ctx };
    });
  }

  function announce(call: RoutedCall, prefix: string, data: unknown, rule?: CompiledRoute): void {
    if (rule === undefined && subscribers.size === 0) return;
    const { caller, callId } = call;
    const origin: events.EventOrigin = { heading: toHeading(call, prefix), caller, callId, rule };
    const matching = subscribers.matching(origin.heading);
    const delivery = matching.length === 0 ? undefined : tryCreateDelivery(origin, data);
    if (delivery !== undefined) {
      events.recordRouted(record, delivery.event.id, origin, matching.length);
      for (const subscriber of matching) subscriber.deliver(delivery);
    } else if (rule !== undefined) events.recordRouted(record, runtime.newId(), origin, 0);
  }

  /** Undefined when the data cannot be copied: that must not keep the call from running. */
  function tryCreateDelivery(origin: events.EventOrigin, data: unknown): EventDelivery | undefined {
    const depth = events.requireNextDepth(getDepth(), origin.heading.type);
    try {
      return events.createEventDelivery(runtime, origin, data, depth);
    } catch (thrown) {
      report(
        `subscribers were not told of ${origin.heading.type} of call ${origin.callId}: ${getErrorMessage(thrown)}`,
      );
      return undefined;
    }
  }

  /** Only reports errors: the call has ended. */
  function announceResult(call: RoutedCall, started: number, failure?: { readonly thrown: unknown }): void {
    if (subscribers.size === 0) return;
    const durationMs = Math.max(0, runtime.elapsed() - started);
    const code = failure?.thrown instanceof QmError ? failure.thrown.code : "internal";
    const data = failure === undefined ? { status: "done", durationMs } : { status: "failed", code, durationMs };
    try {
      announce(call, events.TOOL_RESULT, data);
    } catch (thrown) {
      report(`subscribers were not told how call ${call.callId} ended: ${getErrorMessage(thrown)}`);
    }
  }

  return async function dispatch<T>(call: RoutedCall, run: (limits: AttemptLimits) => Promise<T>): Promise<T> {
    const { callId, action, caller, signal: outer, timeoutMs } = call;
    if (action.routing === "bypass") return run(toAttemptLimits(outer ?? new LazyAbortController(), timeoutMs));
    tasks.requireOpen();
    const rule = findRule(call);
    announce(call, events.TOOL_CALL, call.args, rule);

    const started = runtime.elapsed();
    const getTimeLeft = () =>
      timeoutMs === undefined ? undefined : Math.ceil(timeoutMs - (runtime.elapsed() - started));
    const onFailure = (attempt: number, error: QmError, delayMs: number): boolean => {
      if (delayMs >= (getTimeLeft() ?? Number.POSITIVE_INFINITY)) return false;
      const { code } = error;
      const data = { callId, action: action.name, attempt, code, reason: getErrorMessage(error), delayMs };
      record(caller, { type: "call.retried", data });
      return true;
    };
    const { deadlineMs = 0 } = rule ?? {};
    const createCancelError = () => cancelledError(action.name);
    const createLateError = () => deadlineError(action, deadlineMs);
    const options = { outer, createCancelError, deadlineMs: rule?.deadlineMs, createLateError };
    const retry = canRepeat(action) && call.once !== true ? rule?.retry : undefined;
    const entry = { callId, action: action.name, actor: caller.actor, since: runtime.now() };
    return tasks.run(options, entry, async (task) => {
      const attempt = (number: number) =>
        run(toAttemptLimits(task.controller, number === 1 ? timeoutMs : getTimeLeft()));
      try {
        const result = await runWithRetries(task, attempt, { retry, onFailure });
        announceResult(call, started);
        return result;
      } catch (thrown) {
        announceResult(call, started, { thrown });
        throw thrown;
      }
    });
  };
}

function toHeading({ action, caller: { actor } }: RoutedCall, prefix: string) {
  return { source: `actor:${actor}`, type: prefix + action.name, actor, isPrivate: action.scope === "specialist" };
}

/** Whether running it twice is no worse than running it once. */
const canRepeat = ({ effect, idempotent }: Action): boolean => idempotent || effect === "pure" || effect === "read";
const toAttemptLimits = (signal: Abortable, timeoutMs: number | undefined): AttemptLimits =>
  timeoutMs === undefined ? { signal } : { signal, timeoutMs };

function deadlineError(action: Action, ms: number): QmError {
  return new QmError("timed_out", `${action.name} did not end within the ${ms} ms that a routing rule gives it`, {
    hint: canRepeat(action)
      ? "Try again, or ask for less."
      : "It may still have had an effect: look before trying again.",
  });
}
