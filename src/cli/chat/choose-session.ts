import type { Sessions, SessionView } from "../../actor/session-service.ts";
import type { SessionQuery, SessionSummary } from "../../actor/session-store.ts";
import { systemRuntime } from "../../app/system-runtime.ts";
import { QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, isNotFound, toCallerOptions } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import { findSessions, iterateSessions } from "./find-session.ts";

export interface ChosenSession {
  readonly session: string;
  /** Its last messages, and whether a turn is open. Absent: the session begins now. */
  readonly view?: SessionView;
}

/** How many messages are read for the history of the input. */
const TAIL = 200;

/** The session that the options name: by its name or the beginning of its id, the last one, or a new one. */
export async function chooseSession(
  { globals }: Context,
  { quartermaster: { sessions } }: Workspace,
  actor: string,
  isResumed: boolean,
): Promise<ChosenSession> {
  const { session: name, tenant, user } = globals;
  if (name !== undefined && isResumed)
    throw createUsageError("--session and --resume contradict each other", "Give one of them.");
  const query = { actor, ...omitUndefined({ tenant, user }) };
  const isOwn = (each: SessionSummary) => each.tenant === tenant && each.user === user;
  const found =
    name !== undefined
      ? (await findSessions(sessions, name, query).catch(ignoreUnknown)).find(isOwn)
      : isResumed
        ? await findLast(sessions, query, isOwn)
        : undefined;
  if (found !== undefined) {
    const after = Math.max(0, found.messages - TAIL);
    const caller = toCallerOptions(globals);
    return { session: found.session, view: await sessions.get(found.session, { caller, actor, after, limit: TAIL }) };
  }
  if (isResumed)
    throw new QmError("not_found", `there is no session with actor ${quoteName(actor)}`, {
      hint: "Leave out --resume to begin one.",
    });
  return { session: name ?? systemRuntime.newId() };
}

async function findLast(sessions: Sessions, query: SessionQuery, isOwn: (each: SessionSummary) => boolean) {
  for await (const each of iterateSessions(sessions, query)) if (isOwn(each)) return each;
  return undefined;
}

/** A new session may have any name. */
function ignoreUnknown(thrown: unknown): readonly [] {
  if (!isNotFound(thrown)) throw thrown;
  return [];
}
