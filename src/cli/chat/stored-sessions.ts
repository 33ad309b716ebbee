import { isRespond } from "../../actor/respond.ts";
import type { SessionView } from "../../actor/session-service.ts";
import type { SessionSummary } from "../../actor/session-store.ts";
import { systemRuntime } from "../../app/system-runtime.ts";
import { escapeUnsafe, formatCount, toOneLine } from "../../core/display-text.ts";
import { clip, omitUndefined } from "../../core/json.ts";
import type { ModelMessage } from "../../core/model.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { requireYes } from "../approver.ts";
import { type Context, reportNotFound, toOwnerFilter } from "../context.ts";
import type { CommandOutput } from "../output.ts";
import { formatTimeSpan, safeJson } from "../terminal-text.ts";
import { findSessions } from "./find-session.ts";
import { createArgumentRedactor, getSpokenText, readResponseParts } from "./turn-display.ts";
import { formatSessionCommand } from "./turn-end.ts";

type ListFlags = { readonly limit: number; readonly offset: number };

export async function listSessions(
  { out, globals }: Context,
  { quartermaster }: Workspace,
  { limit, offset }: ListFlags,
) {
  const filter = toOwnerFilter(globals);
  const [found, [more]] = await Promise.all([
    quartermaster.sessions.list({ ...filter, limit, offset }),
    quartermaster.sessions.list({ ...filter, limit: 1, offset: offset + limit }),
  ]);
  const next = more === undefined ? undefined : offset + limit;
  if (out.isJson) return out.json({ sessions: found, ...omitUndefined({ next }) });
  if (found.length === 0) {
    const isFiltered = Object.keys(filter).length > 0 || offset > 0;
    out.line(isFiltered ? "No session matches." : "There are no sessions.");
    return out.line(out.dim(isFiltered ? "Leave out an option; `qm sessions list` shows all." : NO_SESSIONS_HINT));
  }
  const now = systemRuntime.now().getTime();
  out.table(
    ["SESSION", "ACTOR", "MESSAGES", "CHANGED", "TURN", "TITLE"],
    found.map(({ session, actor, messages, changedAt, turnState, title }) => [
      session,
      actor,
      String(messages),
      `${formatTimeSpan(now - Date.parse(changedAt))} ago`,
      turnState === undefined ? "" : { text: turnState, paint: out.warn },
      title,
    ]),
  );
  if (next !== undefined) out.line(out.dim(`There are more: --offset ${next} shows the next ${limit}.`));
}

const NO_SESSIONS_HINT = "`qm chat` begins one, and so does `qm run`.";

type ShowFlags = { readonly limit: number; readonly after: number };

export async function showSession(context: Context, workspace: Workspace, id: string, { limit, after }: ShowFlags) {
  const { out } = context;
  const { sessions } = workspace.quartermaster;
  const found = await findNamed(context, workspace, id);
  const views = await Promise.all(found.map((each) => sessions.get(each.session, { ...toChoice(each), after, limit })));
  if (found.length === 0) return;
  if (out.isJson) return out.json({ sessions: views });
  const redact = createArgumentRedactor(workspace);
  for (const [at, view] of views.entries()) {
    if (at > 0) out.line();
    showView(out, view, redact, limit);
  }
}

function showView(out: CommandOutput, view: SessionView, redact: (value: unknown) => unknown, limit: number): void {
  const { history, session, actor, messages, turn } = view;
  const showMessage = (mark: string, message: ModelMessage): void => {
    for (const line of formatMessage(message, redact)) out.line(`${out.dim(mark.padStart(4))}  ${line}`);
  };
  out.line(out.bold(`${toOneLine(session)} with ${toOneLine(actor)}: ${formatCount(messages, "message")}`));
  for (const { seq, message } of history) showMessage(String(seq), message);
  const last = history.at(-1)?.seq ?? messages;
  if (last < messages) {
    out.line(out.dim(`There are more: --after ${last} shows the next ${limit}.`));
    return;
  }
  if (turn !== undefined) out.line(out.warn(`A turn is ${turn.state}:`));
  for (const message of turn?.messages ?? []) showMessage("", message);
  out.line(out.dim(`\`${formatSessionCommand("chat", actor, session)}\` continues it.`));
}

const RESULT_LIMIT = 200;

/** The lines of a message. All of it is untrusted. */
function formatMessage(message: ModelMessage, redact: (value: unknown) => unknown): readonly string[] {
  if (message.role === "tool")
    return message.results
      .filter((result) => !isRespond(result) || !result.text.startsWith("delivered"))
      .map(({ name, text }) => `  ${toOneLine(name)}: ${clip(toOneLine(text), RESULT_LIMIT)}`);
  const text = escapeUnsafe(getSpokenText(message)).replaceAll("\n", "\n      ");
  if (message.role === "user") return [`you> ${text}`];
  const made = message.toolCalls.filter((call) => readResponseParts(call).length === 0);
  const calls = made.map(({ name, args }) =>
    clip(`  ${toOneLine(name)} ${toOneLine(safeJson(redact(args)))}`, RESULT_LIMIT),
  );
  return [...(text.trim() === "" ? [] : [text]), ...calls];
}

type RemoveFlags = { readonly yes?: boolean };

export async function removeSession(context: Context, workspace: Workspace, id: string, { yes }: RemoveFlags) {
  const { out } = context;
  const { sessions } = workspace.quartermaster;
  const found = await findNamed(context, workspace, id);
  if (found.length === 0) return;
  const names = found.map(
    ({ session, actor, messages }) => `${session} with ${actor}, ${formatCount(messages, "message")}`,
  );
  await requireYes(context, { question: `Remove ${toOneLine(names.join("; "))}?`, done: "removed", yes });
  for (const each of found) await sessions.remove(each.session, toChoice(each));
  const removed = found.map(({ session, actor }) => ({ session, actor }));
  out.answer({ removed }, `Removed ${formatCount(found.length, "session")}.`);
}

/** The sessions that are meant. An unknown one is reported, and the result is empty. */
async function findNamed(context: Context, { quartermaster }: Workspace, id: string) {
  const filter = toOwnerFilter(context.globals);
  return (await reportNotFound(context, () => findSessions(quartermaster.sessions, id, filter))) ?? [];
}

const toChoice = ({ actor, tenant, user }: SessionSummary) => ({
  actor,
  caller: omitUndefined({ tenant, user: user === undefined ? undefined : { id: user } }),
});
