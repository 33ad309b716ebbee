import type { CallActorOptions } from "../../actor/envelope.ts";
import type { SessionView } from "../../actor/session-service.ts";
import { escapeUnsafe, formatCount, toOneLine } from "../../core/display-text.ts";
import { clip } from "../../core/json.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, reportNotFound } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import { requireAnsweringActor } from "./answering-actor.ts";
import { runChat } from "./chat.ts";
import { type ChatInput, openChatInput } from "./chat-input.ts";
import { chooseSession } from "./choose-session.ts";
import { getSpokenText } from "./turn-display.ts";

export type ChatFlags = { readonly resume?: boolean };

export async function startChat(context: Context, workspace: Workspace, { resume = false }: ChatFlags): Promise<void> {
  const { io, out, globals, end } = context;
  const { quartermaster } = workspace;
  const answering = requireAnsweringActor(workspace, globals.actor);
  const { actor } = answering;
  if (out.isJson)
    throw createUsageError("`qm chat` has no option --json", "`qm run --json` prints the answer as JSON.");
  const chosen = await reportNotFound(context, () => chooseSession(context, workspace, actor, resume));
  if (chosen === undefined) return;
  const { session, view } = chosen;
  const spoken = (view?.history ?? []).flatMap(({ message }) => (message.role === "user" ? [message.text] : []));
  const input = openChatInput(io, spoken.toReversed());
  try {
    out.note(
      out.dim(
        `${toOneLine(actor)} (${toOneLine(answering.model)}), session ${toOneLine(session)}. /help lists the commands.`,
      ),
    );
    if (view !== undefined) showRecent(context, view);
    const turnState = view?.turn?.state;
    if (turnState === "running") out.note("Another process runs a turn of this session now.");
    if (turnState === "suspended") out.note("The last turn waits for approval.");
    const isContinued =
      turnState === "suspended" || (turnState === "interrupted" && (await askToContinue(context, input)));
    const continueTurn = (more: CallActorOptions) => quartermaster.sessions.resume(session, { ...more, actor });
    end(await runChat(context, workspace, input, { ...answering, session, ...(isContinued && { continueTurn }) }));
  } finally {
    input.close();
  }
}

/** Without an answer, the next message of the session closes the turn. */
async function askToContinue({ out }: Context, input: ChatInput): Promise<boolean> {
  if (!input.isInteractive) return false;
  const typed = await input.ask(out.warn("The last turn was interrupted: its process ended. Continue it? [Y/n] "));
  return typed.kind === "text" && !/^n/i.test(typed.text.trim());
}

const RECENT = 4;
const RECENT_LENGTH = 600;

/** The last messages, so that the person knows where the conversation was. */
function showRecent({ out }: Context, { history, messages, turn }: SessionView): void {
  const all = [...history.map(({ message }) => message), ...(turn?.messages ?? [])];
  const said = all.map((message) => ({ role: message.role, text: getSpokenText(message) }));
  const shown = said.filter(({ text }) => text !== "").slice(-RECENT);
  if (messages > shown.length) out.note(out.dim(`${formatCount(messages, "message")} so far; the last ones:`));
  for (const { role, text } of shown)
    out.note(
      out.dim(`  ${role === "user" ? "you> " : ""}${escapeUnsafe(clip(text, RECENT_LENGTH)).replaceAll("\n", "\n  ")}`),
    );
}
