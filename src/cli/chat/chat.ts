import type { ActorEnvelope, CallActorOptions } from "../../actor/envelope.ts";
import { systemRuntime } from "../../app/system-runtime.ts";
import { onAbort, raceAbort } from "../../core/async.ts";
import { formatCount, toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { cliHintWords } from "../../core/hint.ts";
import { getOwn } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, toCallerOptions } from "../context.ts";
import { type ExitCode, exitCodes, getExitCode } from "../exit-codes.ts";
import type { AnsweringActor } from "./answering-actor.ts";
import type { ChatInput } from "./chat-input.ts";
import { answerApprovals, listApprovalIds } from "./turn-approvals.ts";
import { createArgumentRedactor, createTurnDisplay } from "./turn-display.ts";
import { formatSessionCommand, getTurnExitCode } from "./turn-end.ts";

const TOOLS_LIMIT = 200;

type StartTurn = (options: CallActorOptions) => Promise<ActorEnvelope>;

export interface ChatOptions extends AnsweringActor {
  readonly session: string;
  /** Continues the open turn of the session. */
  readonly continueTurn?: StartTurn | undefined;
}

/** Talks with an actor until the person leaves. Returns the exit code. */
export async function runChat(context: Context, workspace: Workspace, input: ChatInput, options: ChatOptions) {
  const { io, out, globals } = context;
  const { quartermaster } = workspace;
  const { actor, model } = options;
  const redact = createArgumentRedactor(workspace);
  const leaving = new AbortController();
  const leave = (code: ExitCode) => leaving.abort(code);
  let { session, continueTurn } = options;
  let last: ExitCode = exitCodes.done;
  let wasInterrupted = false;

  /** Runs a turn, and goes on with it as long as the person answers its approvals. */
  async function takeTurn(start: StartTurn): Promise<void> {
    for (let next: StartTurn | undefined = start; next !== undefined; ) {
      const envelope = await runOnce(next);
      if (envelope === undefined) return;
      last = getTurnExitCode(envelope);
      next = await endTurn(envelope);
    }
  }

  /** Ctrl-C cancels the turn. A second one leaves the chat, even if a call ignores its signal. */
  async function runOnce(start: StartTurn): Promise<ActorEnvelope | undefined> {
    const cancelling = new AbortController();
    const stopListening = [
      input.onInterrupt(() => (cancelling.signal.aborted ? leave(exitCodes.interrupted) : cancelling.abort())),
      onAbort(io.signal, () => cancelling.abort()),
    ];
    const display = createTurnDisplay({ actor, notes: io.stderr, texts: io.stdout, out, redact });
    try {
      const caller = { ...toCallerOptions(globals), session };
      const turn = start({ caller, signal: cancelling.signal, onEvent: display.onEvent });
      const envelope = await raceAbort(turn, leaving.signal);
      display.end(envelope);
      return envelope;
    } catch (thrown) {
      display.end({ parts: [] });
      if (leaving.signal.aborted) return undefined;
      showProblem(thrown);
      return undefined;
    } finally {
      for (const stop of stopListening) stop();
    }
  }

  function showProblem(thrown: unknown): void {
    if (!(thrown instanceof QmError)) throw thrown;
    last = getExitCode(thrown.code, false);
    out.problem(thrown.toProblem(cliHintWords));
  }

  /** Returns how the turn goes on, if it does. */
  async function endTurn(envelope: ActorEnvelope): Promise<StartTurn | undefined> {
    const { turnState, error, resumeToken } = envelope;
    if (turnState === "cancelled") out.note("Interrupted. What ran before remains.");
    if (turnState === "failed" && error !== undefined) out.problem(error);
    if (turnState !== "suspended") {
      continueTurn = undefined;
      return undefined;
    }
    // A turn that still waits keeps its token.
    if (resumeToken !== undefined) continueTurn = (more) => quartermaster.resumeActor(resumeToken, more);
    const next = continueTurn;
    if (input.isInteractive && (await answerApprovals(context, workspace, input, envelope.parts))) return next;
    for (const id of listApprovalIds(envelope.parts))
      out.note(`It waits for approval: \`qm approvals approve ${id}\` allows it, \`deny\` refuses.`);
    if (input.isInteractive) out.note("Then /resume continues the turn.");
    else out.note(`Then continue with \`${formatSessionCommand("chat", actor, session)}\`.`);
    return undefined;
  }

  const commands: Readonly<Record<string, readonly [meaning: string, run: (rest: string) => Promise<void> | void]>> = {
    help: [
      "show this",
      () => {
        out.table(
          ["", ""],
          Object.entries(commands).map(([name, [meaning]]) => [`/${name}`, meaning]),
        );
        out.line(out.dim("A trailing \\ continues the message on the next line. Ctrl-C interrupts the actor."));
      },
    ],
    tools: [
      "list the actions that the actor may use; /tools <text> filters them",
      (rest) => {
        const names = quartermaster.names({ actor }).filter((name) => name.includes(rest));
        out.line(...names.slice(0, TOOLS_LIMIT).map((name) => `  ${toOneLine(name)}`));
        const more = names.length > TOOLS_LIMIT ? `, ${TOOLS_LIMIT} of them shown` : "";
        out.line(out.dim(`${formatCount(names.length, "action")}${more}.`));
      },
    ],
    session: [
      "show the session and how to come back to it",
      () => {
        out.line(`Session ${toOneLine(session)} with ${toOneLine(actor)}, model ${toOneLine(model)}.`);
        out.line(out.dim(`\`${formatSessionCommand("chat", actor, session)}\` continues it.`));
      },
    ],
    resume: [
      "continue a turn that waits for approval",
      async () => {
        if (continueTurn === undefined) out.note("No turn waits for approval.");
        else await takeTurn(continueTurn);
      },
    ],
    cancel: [
      "give up a turn that waits for approval",
      async () => {
        const isCancelled =
          continueTurn !== undefined &&
          (await quartermaster.sessions.cancel(session, { caller: toCallerOptions(globals), actor }));
        continueTurn = undefined;
        out.note(isCancelled ? "The turn is cancelled, and its calls are withdrawn." : "No turn waits for approval.");
      },
    ],
    new: [
      "begin another session",
      () => {
        session = systemRuntime.newId();
        continueTurn = undefined;
        out.note(`Session ${session}.`);
      },
    ],
    exit: ["leave; so does Ctrl-D", () => leave(exitCodes.done)],
  };

  async function handleText(text: string): Promise<void> {
    const [, name, rest = ""] = /^\/([a-z]+)(?:\s+(.*))?$/s.exec(text.trim()) ?? [];
    if (name === undefined && continueTurn !== undefined)
      return out.note("The last turn still waits for approval: /resume continues it, /cancel gives it up.");
    if (name === undefined) return takeTurn((more) => quartermaster.callActor(actor, text, more));
    const command = getOwn(commands, name);
    if (command !== undefined) return command[1](rest.trim());
    out.note(
      `There is no command ${quoteName(`/${name}`)}${didYouMean(name, Object.keys(commands)) || "."} /help lists them.`,
    );
  }

  if (continueTurn !== undefined) await takeTurn(continueTurn);
  for (;;) {
    if (leaving.signal.aborted) return leaving.signal.reason as ExitCode;
    const typed = await raceAbort(input.read(out.bold("you> ")), io.signal).catch(() => undefined);
    if (typed === undefined || (typed.kind === "interrupt" && wasInterrupted)) return exitCodes.interrupted;
    wasInterrupted = typed.kind === "interrupt";
    if (wasInterrupted) out.note("Ctrl-C again leaves, and so does Ctrl-D.");
    if (typed.kind === "end") return input.isInteractive ? exitCodes.done : last;
    if (typed.kind === "text" && typed.text.trim() !== "") await handleText(typed.text).catch(showProblem);
  }
}
