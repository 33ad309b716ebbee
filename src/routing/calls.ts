import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { messageOf, QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Facts } from "../policy/facts.ts";
import { deliveryOf, type Note, nextDepth, noteRouted, type Origin } from "./announce.ts";
import { type Course, inTries } from "./course.ts";
import { TOOL_CALL, TOOL_RESULT } from "./event.ts";
import type { CompiledRule, RuleBook } from "./rules.ts";
import type { Delivery, Subscribers } from "./subscribers.ts";
import { type UnderWay, wasCancelled } from "./under-way.ts";

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
export interface RunWish {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

export interface DispatchParts {
  readonly runtime: Runtime;
  readonly note: Note;
  readonly say: (problem: string) => void;
  readonly factsOf: (call: RoutedCall) => Facts;
  readonly rules: () => RuleBook;
  readonly subscribers: Subscribers;
  readonly underWay: UnderWay;
  readonly depth: () => number | undefined;
}

export function createDispatch(parts: DispatchParts) {
  const { runtime, note, say, subscribers, underWay } = parts;

  function ruleFor(call: RoutedCall): CompiledRule | undefined {
    const rules = parts.rules();
    if (rules.labels.length === 0) return undefined;
    const { source, type } = headingOf(call, TOOL_CALL);
    return rules.firstForCall(source, type, () => {
      const { tool, actor, ctx } = parts.factsOf(call);
      return { event: { source, type, data: call.args }, tool, actor, ctx };
    });
  }

  /** Costs next to nothing while nobody has subscribed and no rule took part. */
  function announce(call: RoutedCall, prefix: string, data: unknown, rule?: CompiledRule): void {
    if (rule === undefined && subscribers.size === 0) return;
    const { caller, callId } = call;
    const origin: Origin = { heading: headingOf(call, prefix), caller, callId, rule };
    const told = subscribers.matching(origin.heading);
    const delivery = told.length === 0 ? undefined : deliveryFor(origin, data);
    if (delivery !== undefined) {
      noteRouted(note, delivery.event.id, origin, told.length);
      for (const subscriber of told) subscriber.tell(delivery);
    } else if (rule !== undefined) {
      noteRouted(note, runtime.newId(), origin, 0);
    }
  }

  /** Nothing where the data cannot be shown to anybody: that is no reason not to run the call. */
  function deliveryFor(origin: Origin, data: unknown): Delivery | undefined {
    const depth = nextDepth(parts.depth(), origin.heading.type);
    try {
      return deliveryOf(runtime, origin, data, depth);
    } catch (thrown) {
      say(`nobody was told of ${origin.heading.type} of call ${origin.callId}: ${messageOf(thrown)}`);
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
      say(`nobody was told how call ${call.callId} ended: ${messageOf(thrown)}`);
    }
  }

  return async function dispatch<T>(call: RoutedCall, run: (wish: RunWish) => Promise<T>): Promise<T> {
    const { callId, action, caller, signal: outer, timeoutMs } = call;
    if (action.routing === "bypass") return run(wish(outer ?? new AbortController().signal, timeoutMs));
    underWay.refuseWhenClosed();
    const rule = ruleFor(call);
    announce(call, TOOL_CALL, call.args, rule);

    const started = runtime.elapsed();
    const left = () => (timeoutMs === undefined ? undefined : Math.ceil(timeoutMs - (runtime.elapsed() - started)));
    const attempt = (course: Course, number: number) => run(wish(course.signal, number === 1 ? timeoutMs : left()));
    const onFailure = (failed: number, error: QmError, delayMs: number): boolean => {
      if (delayMs >= (left() ?? Number.POSITIVE_INFINITY)) return false;
      const data = {
        callId,
        action: action.name,
        attempt: failed,
        code: error.code,
        reason: messageOf(error),
        delayMs,
      };
      note(caller, { type: "call.retried", data });
      return true;
    };
    const { deadlineMs } = rule ?? {};
    const retry = mayRepeat(action) && call.once !== true ? rule?.retry : undefined;
    const cancelled = () => wasCancelled(action.name);
    const options = { outer, cancelled, deadlineMs, late: () => isLate(action, deadlineMs ?? 0) };
    const entry = { callId, action: action.name, actor: caller.actor, since: runtime.now() };
    return underWay.run(options, entry, async (course) => {
      try {
        const result = await inTries(course, (number) => attempt(course, number), { retry, onFailure });
        announceResult(call, started);
        return result;
      } catch (thrown) {
        announceResult(call, started, { thrown });
        throw thrown;
      }
    });
  };
}

function headingOf({ action, caller }: RoutedCall, prefix: string) {
  const isPrivate = action.scope === "specialist";
  return { source: `actor:${caller.actor}`, type: prefix + action.name, actor: caller.actor, isPrivate };
}

/** Whether doing it twice is no worse than doing it once. */
function mayRepeat({ effect, idempotent }: Action): boolean {
  return idempotent || effect === "pure" || effect === "read";
}

function wish(signal: AbortSignal, timeoutMs: number | undefined): RunWish {
  return timeoutMs === undefined ? { signal } : { signal, timeoutMs };
}

function isLate(action: Action, ms: number): QmError {
  return new QmError("timed_out", `${action.name} did not end within the ${ms} ms that a routing rule gives it`, {
    hint: mayRepeat(action)
      ? "Try again, or ask for less."
      : "It may still have had an effect: look before trying again.",
  });
}
