import type { Action } from "../core/action.ts";
import { messageOf } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";

/** What a call would do, for the person who is to agree to it. Undefined: its arguments say it all. Never rejects. */
export type Previewer = (action: Action, args: JsonObject, signal?: AbortSignal) => Promise<string | undefined>;

const LIMIT_MS = 10_000;
/** Nobody has agreed to anything yet, and a preview may have to look something up. */
const AT_ONCE = 2;

export function createPreviewer(): Previewer {
  let running = 0;
  return async (action, args, signal) => {
    if (action.preview === undefined) return undefined;
    if (running >= AT_ONCE) return "cannot be told now: others are being looked up";
    running++;
    const limit = AbortSignal.timeout(LIMIT_MS);
    try {
      return await action.preview(args, signal === undefined ? limit : AbortSignal.any([signal, limit]));
    } catch (thrown) {
      return `cannot be told: ${messageOf(thrown)}`;
    } finally {
      running--;
    }
  };
}
