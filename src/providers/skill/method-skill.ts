import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { isLeftOpen } from "../../core/caller.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { type JsonObject, omitUndefined } from "../../core/json.ts";
import type { Outcome } from "../../core/outcome.ts";
import { readMethod } from "./method/method-file.ts";
import { runMethod } from "./method/method-loop.ts";
import type { MethodResult } from "./method/method-run.ts";
import type { HeldRun } from "./method/method-runs.ts";
import type { MethodServices } from "./method/method-services.ts";
import { describeModelState, describeSkill, requireModel, type SkillParts } from "./skill-action.ts";
import type { Skill, SkillSnapshot } from "./skill-folders.ts";
import { readSkillInputs } from "./skill-inputs.ts";

/** Long, because the work is bounded by the budget of requests. */
const TIMEOUT_MS = 60 * 60 * 1000;

/** A skill whose body is a protocol. The model carries it out step by step, with the tools that each step declares. */
export function defineMethodSkill(skill: Skill, parts: SkillParts): Action {
  const action = defineAction("skill", {
    ...describeSkill(skill),
    ...describeModelState(parts),
    // The strongest effect that its calls can have. Each of them is decided on its own.
    effect: "stateful",
    timeoutMs: TIMEOUT_MS,
    input: readSkillInputs(skill.fields, "method").schema,
    async run(args, context) {
      if (context.method !== undefined) throw createNestedError(skill.name, context.method);
      const snapshot = await parts.open(skill, context);
      // The name of the action, which may have that of a world before the name in the file.
      return startOrContinue({ ...snapshot, name: skill.name }, args, context, parts.methods);
    },
  });
  // The model of the method sees the arguments, so it gets tokens like any other model.
  return Object.freeze({ ...action, keepsTokens: true });
}

async function startOrContinue(
  snapshot: SkillSnapshot,
  args: JsonObject,
  context: CallContext,
  services: MethodServices,
): Promise<unknown> {
  const { name, body, fields, digest } = snapshot;
  const { runs, record } = services;
  const { callId, caller, signal } = context;
  const { method } = readMethod(fields, body);
  const model = requireModel(context);
  const steps = method.steps.length;
  const opened = await runs.open({ action: `skill__${name}`, digest, steps, args, caller, callId });
  // Only after the call's end is recorded: after a crash the caller can still get the result.
  if (!services.isOwnCall(callId)) context.afterEnd((outcome) => markDelivered(services, opened.id, outcome));
  if (opened.kind === "ended") return toAnswer(opened.result);
  const { run } = opened;
  const facts = { callId, run: run.id, skill: name };
  let result: MethodResult;
  try {
    if (run.isNew)
      await record(caller, { type: "method.started", data: { ...facts, digest, steps, budget: method.budget } });
    else {
      await record(caller, { type: "method.continued", data: { ...facts, step: run.progress.step } });
      await services.resumeSources(run.id);
    }
    if (run.digest !== digest) throw createChangedError(name);
    const ended = await runMethod({ name, method, body, args, run, context, model, services });
    if ("waiting" in ended) return ended.waiting;
    result = ended.result;
  } catch (thrown) {
    if (signal.aborted) {
      await leave(run, signal.reason);
      throw thrown;
    }
    result = { error: toStoredError(thrown) };
  }
  await run.end(result);
  return toAnswer(result);
}

/** A caller that cancels ends the run. After a timeout, a lost connection or the end of the process it can go on. */
async function leave(run: HeldRun, reason: unknown): Promise<void> {
  const isCancelled = reason instanceof QmError && reason.code === "cancelled" && !isLeftOpen(reason);
  await (isCancelled ? run.cancel() : run.release()).catch(() => {});
}

/** A caller that has left did not hear the result. */
async function markDelivered({ runs }: MethodServices, id: string, outcome: Outcome): Promise<void> {
  const code = "error" in outcome ? outcome.error.code : undefined;
  if (code !== "cancelled" && code !== "timed_out") await runs.deliver(id).catch(() => {});
}

function toAnswer(result: MethodResult): unknown {
  if (!("error" in result)) return result;
  const { code, message, hint, details } = result.error;
  throw new QmError(code, message, { details, ...omitUndefined({ hint }) });
}

function toStoredError(thrown: unknown): Extract<MethodResult, { error: unknown }>["error"] {
  if (!(thrown instanceof QmError)) return { code: "action_failed", message: getErrorMessage(thrown), details: {} };
  const { code, message, hintTemplate: hint, details } = thrown;
  return { code, message, details, ...omitUndefined({ hint }) };
}

function createNestedError(name: string, outer: string): QmError {
  const message = `the method ${name} cannot run inside the method ${outer}`;
  return new QmError("denied", message, { hint: "Do its steps yourself, or leave it to the caller." });
}

function createChangedError(name: string): QmError {
  const message = `the files of the method ${name} changed after this run had started`;
  return new QmError("conflict", message, {
    hint: "The run has ended. Call it again to start with the changed method.",
  });
}
