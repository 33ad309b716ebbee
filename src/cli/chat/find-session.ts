import type { Sessions } from "../../actor/session-service.ts";
import type { SessionQuery, SessionSummary } from "../../actor/session-store.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";

type Owner = Pick<SessionQuery, "tenant" | "user" | "actor">;

/** Fewer characters of an id could be meant as a whole name. */
const MIN_PREFIX = 6;
const PAGE = 500;

/**
 * The sessions with this name, one for each actor, or those of the one id that begins with it. Throws `not_found`, and
 * `invalid_arguments` if several ids begin with it.
 */
export async function findSessions(sessions: Sessions, text: string, owner: Owner): Promise<readonly SessionSummary[]> {
  const exact = await sessions.list({ ...owner, session: text });
  if (exact.length > 0) return exact;
  const found: SessionSummary[] = [];
  if (text.length >= MIN_PREFIX)
    for await (const each of iterateSessions(sessions, owner)) if (each.session.startsWith(text)) found.push(each);
  const ids = [...new Set(found.map(({ session }) => session))];
  if (ids.length === 1) return found;
  if (ids.length === 0)
    throw new QmError("not_found", `there is no session ${quoteName(text)}`, {
      hint: "Run `qm sessions list` to see the sessions.",
    });
  const message = `${ids.length} sessions begin with ${quoteName(text)}`;
  throw new QmError("invalid_arguments", message, {
    details: { suggestions: ids.slice(0, 5) },
    hint: "Give more of the id.",
  });
}

/** The last changed first. */
export async function* iterateSessions(sessions: Sessions, query: SessionQuery): AsyncGenerator<SessionSummary> {
  for (let offset = 0; ; offset += PAGE) {
    const page = await sessions.list({ ...query, limit: PAGE, offset });
    yield* page;
    if (page.length < PAGE) return;
  }
}
