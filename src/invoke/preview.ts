import type { Action } from "../core/action.ts";
import { messageOf, QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { createLimiter } from "./limiter.ts";

/**
 * Says what a call would do, for the person who is asked to approve it. Undefined: its arguments say it all. Rejects when
 * that cannot be told: nobody is asked to approve what they cannot see.
 */
export type Previewer = (action: Action, args: JsonObject, signal?: AbortSignal) => Promise<string | undefined>;

const LIMIT_MS = 10_000;
/** A preview may have to look something up, and nobody has agreed to anything yet. */
const AT_ONCE = 2;
const WAITING = 16;

export function createPreviewer(): Previewer {
  const limiter = createLimiter(AT_ONCE, WAITING);
  return async (action, args, signal) => {
    if (action.preview === undefined) return undefined;
    const limit = AbortSignal.timeout(LIMIT_MS);
    const either = signal === undefined ? limit : AbortSignal.any([signal, limit]);
    const leave = await limiter.enter(either);
    try {
      return await action.preview(args, either);
    } catch (thrown) {
      if (thrown instanceof QmError) throw thrown;
      throw new QmError("action_failed", `what ${action.name} would do cannot be told: ${messageOf(thrown)}`, {
        cause: thrown,
        hint: "Nobody was asked to approve it. Try again later.",
      });
    } finally {
      leave();
    }
  };
}
