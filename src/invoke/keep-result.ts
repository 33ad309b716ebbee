import type { Action } from "../core/action.ts";
import { mediaSize } from "../core/content.ts";
import { messageOf, QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { fitted } from "../infospace/content.ts";
import type { Keepable } from "../infospace/keep.ts";
import type { Maker } from "../infospace/maker.ts";
import { isOutOfRoom } from "../infospace/quota.ts";
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
    return thrown instanceof QmError && isOutOfRoom(thrown) ? cutResult(result, thrown, door.valueLimit) : result;
  }
}

/** The beginning of a result there is no room for, with the reason: a model that is not told would call again. */
function cutResult(result: CheckedResult, { message, hint = "" }: QmError, limit: number): CheckedResult {
  const told = { not_kept: `The call is done. Its result is too long to be shown and was not kept: ${message}.`, hint };
  const { value } = fitted((result.forModel ?? result.data) as Json, limit - JSON.stringify(told).length - ROOM);
  return { ...result, forModel: { ...told, result: value } };
}

const ROOM = `,"result":`.length;

/** What a model may see of it, and nothing else. */
function keepable({ data, text, content, forModel }: CheckedResult): Keepable {
  if (forModel !== undefined) return { data: forModel, size: JSON.stringify(forModel).length };
  return { data, content, size: text.length + (content === undefined ? 0 : mediaSize(content.blocks)) };
}

function makerOf({ caller, id: callId }: Call, { name: action }: Action): Maker {
  return { caller, callId, action };
}
