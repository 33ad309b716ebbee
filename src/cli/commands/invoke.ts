import type { Command } from "commander";
import { modelData, type Outcome } from "../../core/outcome.ts";
import type { CallerOptions } from "../../options.ts";
import type { Workspace } from "../../workspace.ts";
import { callArguments } from "../call-arguments.ts";
import { type Context, callerOf, withWorkspace } from "../context.ts";
import { exitCodeOfOutcome } from "../exit-codes.ts";
import { collected, duration, examples } from "../options.ts";
import { outcomeProblem } from "../outcome-problem.ts";
import { showProgress } from "../progress.ts";
import { oneLine } from "../text.ts";

interface InvokeOptions {
  readonly arg?: readonly string[];
  readonly timeout?: number;
  readonly keep?: boolean;
}

export function addInvoke(program: Command, context: Context): void {
  program
    .command("invoke")
    .summary("run an action")
    .description("Run an action and print its whole result: text as it is, anything else as JSON.")
    .argument("<action>", "its name, as in `qm list`")
    .argument("[args]", "its arguments: a JSON object, - for stdin, or @file.json")
    .option("--arg <key=value>", "one argument; key:=json for what is not text; may be repeated", collected)
    .option("--timeout <time>", "cancel it after 500ms, 30s, 2m; a bare number is seconds", duration)
    .option("--keep", "keep a long result as a note and print what a model would be shown of it")
    .addHelpText(
      "after",
      examples(
        `qm invoke file__read '{"path":"README.md"}'`,
        "qm invoke file__read --arg path=README.md --arg limit=5",
        "qm invoke file__write @note.json --timeout 5s",
      ),
    )
    .action((action: string, args: string | undefined, options: InvokeOptions) =>
      withWorkspace(context, "calls", (workspace) => invoke(context, workspace, action, args, options)),
    );
}

async function invoke(
  context: Context,
  { quartermaster }: Workspace,
  action: string,
  given: string | undefined,
  { arg = [], timeout, keep = false }: InvokeOptions,
): Promise<void> {
  const { io, out, globals } = context;
  const caller = callerOf(globals);
  const args = await callArguments(given, arg, io, () => schemaOf(quartermaster, action, caller));
  const wipe = showProgress(io.stderr, oneLine(action));
  const outcome = await quartermaster.invoke(action, args, {
    caller,
    signal: io.signal,
    via: "cli",
    keep,
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
  });
  wipe();

  context.end(exitCodeOfOutcome(outcome, io.signal.aborted));
  if (out.isJson) return out.json(withoutValue(outcome));
  if (outcome.action !== undefined && outcome.action !== action)
    out.note(`qm: ${oneLine(action)} was taken for ${outcome.action}`);
  if (outcome.ranAs !== undefined)
    out.note(
      "qm: it was asked for before, and this is what became of it; nothing was run now. Call it again to run it again.",
    );
  if (outcome.status === "done" && keep && outcome.kept === undefined)
    out.note("qm: it is not kept: it is short, or the caller may not load notes");
  if (outcome.status === "done") return out.result(keep ? modelData(outcome) : outcome.data);
  if (outcome.status === "waiting") return outcomeProblem(out, outcome);
  out.problem({
    ...outcome.error,
    ...(outcome.action === undefined ? {} : { action: outcome.action }),
    call_id: outcome.callId,
    ...(outcome.error.code === "cancelled" ? cancelled(outcome.callId) : {}),
  });
}

/** Absent for what the caller does not see: that call is for the door to answer, and to write down. */
function schemaOf(quartermaster: Workspace["quartermaster"], action: string, caller: CallerOptions): unknown {
  try {
    return quartermaster.describe(action, caller).input_schema;
  } catch {
    return undefined;
  }
}

/** `value` is the same again, cut to what a model is shown. */
function withoutValue({ value: _value, ...outcome }: Outcome): object {
  return outcome;
}

function cancelled(callId: string): { readonly hint: string } {
  return { hint: `What it had done by then is done. \`qm events --call ${callId}\` shows the call.` };
}
