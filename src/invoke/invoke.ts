import type { Activation } from "../activation/activation.ts";
import { resolve } from "../catalog/resolve.ts";
import { targetOf, type View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { Dialogue } from "../core/dialogue.ts";
import { changesSomething } from "../core/effect.ts";
import { facts, messageOf, QmError } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import { decide } from "../policy/decide.ts";
import type { Policy } from "../policy/policy.ts";
import type { Objection } from "../policy/verdict.ts";
import { prepareArgs, targetArgs, withSchema } from "./arguments.ts";
import type { Meter } from "./meter.ts";
import { doneOutcome, failedOutcome } from "./outcome.ts";
import { type Held, placeOf } from "./places.ts";
import type { Previewer } from "./preview.ts";
import type { CallRecord, Recorder } from "./record.ts";
import { type CheckedResult, checkedResult } from "./result.ts";
import type { RunContext, Runner } from "./run.ts";

/** One request to run an action, from whatever surface. */
export interface Call {
  readonly id: string;
  /** As the caller wrote it; it is resolved in the caller's view. */
  readonly name: string;
  readonly args: unknown;
  readonly caller: Caller;
  /** The surface it came through, for the ledger. */
  readonly via: string;
  /** A shorter time than the action's own, where the caller will not wait as long. */
  readonly timeoutMs?: number | undefined;
  /** The call that this one was made in, and the actions whose places it and those around it hold. */
  readonly inside?: { readonly callId: string; readonly held: Held };
  /** What whoever made it can be told and asked while it runs. */
  readonly dialogue?: Dialogue | undefined;
  /** The person who was shown this exact call and agreed to it. Without one, a call that must be agreed to is refused. */
  readonly agreedBy?: string | undefined;
  /** What becomes a tool of its own by being called. Absent: nothing does. */
  readonly activation?: Activation | undefined;
}

/** What a call passes through. */
export interface Door {
  readonly runtime: Runtime;
  readonly policy: Policy;
  viewOf(caller: Caller): View;
  readonly record: Recorder;
  readonly meter: Meter;
  readonly runner: Runner;
  readonly preview: Previewer;
  readonly valueLimit: number;
  /** Told what went wrong beside a call without changing its outcome. */
  readonly onProblem: (problem: string) => void;
}

/**
 * The one door: every call of every surface passes through here, in this order, and nobody may choose another. Never
 * rejects; whatever goes wrong is an outcome. When it resolves, the call is in the ledger.
 */
export async function invoke(door: Door, call: Call, signal?: AbortSignal): Promise<Outcome> {
  const started = door.runtime.elapsed();
  const progress: Progress = { action: undefined, began: false, result: undefined };
  const ending = () => ({
    callId: call.id,
    durationMs: Math.max(0, door.runtime.elapsed() - started),
    valueLimit: door.valueLimit,
    action: progress.action?.name,
  });
  let record: CallRecord;
  try {
    record = door.record(call);
  } catch (thrown) {
    return failedOutcome(ending(), thrown);
  }
  let outcome: Outcome;
  try {
    const { action, result } = await attempt(door, call, record, progress, signal);
    outcome = doneOutcome(ending(), action.name, result);
  } catch (thrown) {
    outcome = failedOutcome(ending(), thrown);
  }
  try {
    await record.ended(outcome, progress.result);
    return outcome;
  } catch (thrown) {
    return failedOutcome(ending(), progress.began ? unrecorded(thrown) : thrown);
  }
}

/** How far a call got, for the answer of one that did not end well. */
interface Progress {
  action: Action | undefined;
  began: boolean;
  result: CheckedResult | undefined;
}

async function attempt(
  door: Door,
  call: Call,
  record: CallRecord,
  progress: Progress,
  signal: AbortSignal | undefined,
): Promise<{ readonly action: Action; readonly result: CheckedResult }> {
  const view = door.viewOf(call.caller);
  const { action, how } = resolve(view, call.name);
  progress.action = action;
  record.resolved(action, how);

  const { args: given, repairs } = prepareArgs(action, call.args);
  record.repaired(action, repairs);
  const target = targetOf(view.snapshot, action);
  const args = targetArgs(action, target, given);

  const usage = await door.meter.read(call.caller);
  const decision = decide(door.policy, { action, target, caller: call.caller, args, usage });
  const agreedBy = decision.kind === "ask" ? call.agreedBy : undefined;
  record.decided(action, decision, agreedBy);
  if (decision.kind === "deny") throw refusal("deny", decision.objection);
  if (decision.kind === "ask" && agreedBy === undefined)
    throw refusal("ask", decision.objection, await door.preview(action, args, signal));

  const overdrawn = await door.meter.charge(call.caller);
  if (overdrawn !== undefined) throw refusal("deny", overdrawn);
  await activated(call, action, record);
  if (changesSomething(action.effect)) await record.flushed();
  const started = door.runtime.elapsed();
  try {
    const context = runContext(door, call, action, progress);
    const data = await door.runner.run(action, args, context, { signal, timeoutMs: call.timeoutMs });
    progress.result = checkedResult(action, data);
    return { action, result: progress.result };
  } catch (thrown) {
    throw withSchema(action, thrown);
  } finally {
    await settle(door, call, door.runtime.elapsed() - started, progress.result?.bytes ?? 0);
  }
}

async function activated({ activation }: Call, action: Action, record: CallRecord): Promise<void> {
  if (!activation?.awaits(action)) return;
  if (await activation.activate(action)) record.activated(action, activation.scope);
}

function runContext(door: Door, call: Call, action: Action, progress: Progress): RunContext {
  const { id, caller, via, inside, activation, dialogue } = call;
  const held = new Set([...(inside?.held ?? []), placeOf(action)]);
  return {
    caller,
    callId: id,
    ...(dialogue === undefined ? {} : { dialogue }),
    sees: (name) => door.viewOf(caller).get(name) !== undefined,
    held: inside?.held,
    begin() {
      progress.began = true;
    },
    inside: (signal, dialogue) => (name, args) => {
      const place = { callId: id, held };
      const inner = { id: door.runtime.newId(), name, args, caller, via, activation, dialogue, inside: place };
      return invoke(door, inner, signal);
    },
  };
}

/** What was used is counted as well as can be; that it could not be counted does not undo what was done. */
async function settle(door: Door, { caller, id }: Call, ms: number, bytes: number): Promise<void> {
  try {
    await door.meter.settle(caller, ms, bytes);
  } catch (thrown) {
    door.onProblem(`call ${id}: what it used could not be counted: ${messageOf(thrown)}`);
  }
}

function unrecorded(thrown: unknown): QmError {
  return new QmError("unrecorded", `it ran, but its end could not be written: ${messageOf(thrown)}`, {
    cause: thrown,
    hint: "Only the record is missing. Do not repeat the call; look at what it did.",
  });
}

function refusal(kind: "ask" | "deny", { layer, reason }: Objection, preview?: string): QmError {
  if (kind === "ask") {
    return new QmError("approval_required", reason, {
      hint: "It was not run. Tell the user what you wanted to do and why.",
      details: facts({ would_run: preview }),
    });
  }
  return layer === "budget"
    ? new QmError("budget_exceeded", reason, { hint: "Finish with what you have." })
    : new QmError("denied", reason, { hint: "Choose another way; asking again will not help." });
}
