import type { PendingSource } from "../catalog/define-action.ts";
import { parseActionName } from "../core/names.ts";
import { decide } from "../policy/decide.ts";
import type { ActionCall, InvokePipeline } from "./invoke.ts";

export type LearnSource = (source: PendingSource, signal?: AbortSignal) => Promise<void>;

/**
 * Asks the source of a called action that is not known yet, so that the call can be resolved. The policy decides on the
 * action that the name stands for: if it is hidden or refused, nothing is started and the name stays unknown.
 */
export function learnNamedSource(
  { policy, getView, learn }: Pick<InvokePipeline, "policy" | "getView" | "learn">,
  { name: asked, caller }: Pick<ActionCall, "name" | "caller">,
  signal: AbortSignal | undefined,
): Promise<undefined> | undefined {
  const name = parseActionName(asked);
  if (learn === undefined || name === undefined) return undefined;
  const { snapshot } = getView(caller);
  const source = snapshot.pending.find(({ prefix }) => name.startsWith(prefix));
  if (source === undefined || snapshot.get(name) !== undefined) return undefined;
  const action = source.expect?.(name);
  if (action === undefined || decide(policy, { action, caller }).kind === "deny") return undefined;
  return learn(source, signal).then(() => undefined);
}
