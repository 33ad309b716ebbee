import type { Action } from "../core/action.ts";
import { mayHoldTokens } from "../distribution/anchor-token.ts";
import { mayHoldHandles } from "../infospace/handles.ts";
import { filledCopy, type OwnArgs, ownArgs, unwrapped } from "./arguments.ts";
import type { Call, Door } from "./invoke.ts";
import type { CallRecord } from "./record.ts";

/** A call's arguments, ready to be checked. */
export interface FilledArgs {
  readonly own: OwnArgs;
  /** Whether there are values in them that the model has only tokens for. */
  readonly hasTokens: boolean;
}

/**
 * The caller's arguments, with values in place of the handles and then of the tokens that stand for them. What was agreed to
 * is filled already.
 */
export async function filledArgs(
  door: Pick<Door, "handles" | "anchors">,
  call: Call,
  action: Action,
  record: CallRecord,
): Promise<FilledArgs> {
  const { caller, args, permit, inside } = call;
  if (permit !== undefined) return { own: filledCopy(args), hasTokens: false };
  // What a handler passes on may come from anywhere: a handle in it would be looked up in the caller's name.
  let own = inside === undefined ? ownArgs(args) : filledCopy(args);
  if (inside === undefined && mayHoldHandles(own.text)) {
    const given = own.text;
    const { args: filled, from } = await door.handles.fill(caller, unwrapped(own.value), {
      asHandles: action.handleArguments,
    });
    own = filledCopy(filled);
    if (own.text !== given) record.filled(action, from, own.value);
  }
  const hasTokens = mayHoldTokens(own.text);
  if (!hasTokens || action.keepsTokens) return { own, hasTokens };
  const { args: filled } = await door.anchors.fill(caller, own.value);
  return { own: filledCopy(filled), hasTokens };
}
