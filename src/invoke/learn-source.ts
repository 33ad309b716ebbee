import type { PendingSource } from "../catalog/define-action.ts";
import type { View } from "../catalog/view.ts";
import { type Abortable, toAbortSignal } from "../core/abortable.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { omitUndefined } from "../core/json.ts";
import { createPatternSet, isGlob } from "../core/name-patterns.ts";
import { parseActionName } from "../core/names.ts";
import { decide, listObjections } from "../policy/decide.ts";
import type { Policy } from "../policy/policy.ts";
import type { ActionCall, InvokePipeline } from "./invoke.ts";

export type LearnSource = (source: PendingSource, signal?: AbortSignal) => Promise<void>;

/**
 * Asks the source of a called action that is not known yet, so that the call can be resolved. The policy decides on the
 * action that asks the source and on the one that the name stands for. If it does not allow the start, nothing is
 * started and the name stays unknown.
 */
export function learnNamedSource(
  { policy, learn }: Pick<InvokePipeline, "policy" | "learn">,
  { snapshot }: Pick<View, "snapshot">,
  { name: asked, caller }: Pick<ActionCall, "name" | "caller">,
  signal: Abortable | undefined,
): Promise<undefined> | undefined {
  if (learn === undefined || snapshot.pending.length === 0) return undefined;
  const name = parseActionName(asked);
  if (name === undefined) return undefined;
  const source = snapshot.pending.find(({ prefix }) => name.startsWith(prefix));
  const action = source?.expect?.(name);
  if (source?.connect === undefined || action === undefined || snapshot.get(name) !== undefined) return undefined;
  const objections = listStartObjections(policy, source.connect, caller);
  if (objections.some((layer) => layer !== "unlisted")) return undefined;
  const isSeen = objections.length === 0;
  const { kind } = decide(policy, { action, caller });
  if (kind === "deny" || (kind === "ask" && !isSeen)) return undefined;
  return learn(source, signal && toAbortSignal(signal)).then(
    () => undefined,
    (thrown: unknown) => {
      // To others, the failure would tell that the source exists.
      if (isSeen || signal?.aborted === true) throw thrown;
      return undefined;
    },
  );
}

/** The actions of `CallContext.listVisible`. A source that cannot be asked has no visible actions. */
export async function listVisible(pipeline: InvokePipeline, caller: Caller, patterns: readonly string[]) {
  for (const name of patterns.filter((pattern) => !isGlob(pattern)))
    await learnNamedSource(pipeline, pipeline.getView(caller), { name, caller }, undefined)?.catch(() => {});
  const wanted = createPatternSet(patterns);
  return pipeline
    .getView(caller)
    .actions()
    .filter((action) => wanted.findMatch(action) !== undefined)
    .map(({ name, description, inputSchema, effect, idempotent, type, runsAction }) => {
      return { name, description, inputSchema, effect, idempotent, ...omitUndefined({ type, runsAction }) };
    });
}

/**
 * `unlisted`: an actor or `policy.allowed` lists single tools of the source, which hides the source itself. That is no
 * objection to its start.
 */
function listStartObjections(policy: Policy, connect: Action, caller: Caller) {
  const isDenied = policy.tools.denied.findMatch(connect) !== undefined;
  // With arguments, as for a call of it: some rules object only then.
  return listObjections(policy, { action: connect, caller, args: {} }).flatMap(({ layer, objection }) => {
    if (objection === undefined) return [];
    return layer === "actor" || (layer === "tool-policy" && !isDenied) ? ["unlisted" as const] : [layer];
  });
}
