import type { Action } from "../core/action.ts";
import { mediaSize } from "../core/content.ts";
import { messageOf } from "../core/errors.ts";
import type { Keepable } from "../infospace/keep.ts";
import type { Maker } from "../infospace/maker.ts";
import type { Call, Door } from "./invoke.ts";
import type { CheckedResult } from "./result.ts";

/**
 * A result that is longer than what a model is shown becomes a note or a collection. One that a handler asked for is that
 * handler's; that it could not be kept does not undo what was done.
 */
export async function keptWhereLong(
  door: Pick<Door, "keeper" | "valueLimit" | "onProblem">,
  call: Call,
  action: Action,
  result: CheckedResult,
): Promise<CheckedResult> {
  if (call.inside !== undefined || call.keep === false || result.kept !== undefined) return result;
  try {
    const kept = await door.keeper.keep(keepable(result), makerOf(call, action), door.valueLimit);
    return kept === undefined ? result : { ...result, kept };
  } catch (thrown) {
    door.onProblem(`call ${call.id}: its result could not be kept: ${messageOf(thrown)}`);
    return result;
  }
}

/** What a model may see of it, and nothing else. */
function keepable({ data, text, content, forModel }: CheckedResult): Keepable {
  if (forModel !== undefined) return { data: forModel, size: JSON.stringify(forModel).length };
  return { data, content, size: text.length + (content === undefined ? 0 : mediaSize(content.blocks)) };
}

function makerOf({ caller, id: callId }: Call, { name: action }: Action): Maker {
  return { caller, callId, action };
}
