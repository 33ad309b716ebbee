import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import type { CallerOptions } from "../../app/options.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { getOwn, isRecord } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { getModelData, type Outcome } from "../../core/outcome.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Io } from "../context.ts";
import { type CommandContext, toCallerOptions, withWorkspace } from "../context.ts";
import { getOutcomeExitCode } from "../exit-codes.ts";
import { collectOption, formatExamples, parseTimeoutOption } from "../option-parsers.ts";
import { printOutcomeProblem } from "../output.ts";
import { showProgress } from "../terminal.ts";
import { toOneLine } from "../terminal-text.ts";

/** More than the door takes, and little enough to hold. */
const TEXT_LIMIT = 16 * 1024 * 1024;

/** The arguments of a call in any of the ways to write them; `{}` when there are none. Throws `invalid_arguments`. */
export async function readCallArguments(
  given: string | undefined,
  pairs: readonly string[],
  io: Io,
  schema: () => unknown,
): Promise<unknown> {
  if (pairs.length === 0) return given === undefined ? {} : parseJson(await readArgumentText(given, io), given);
  if (given !== undefined) throw createArgumentsError("give the arguments as JSON or with --arg, not both");
  return parsePairs(pairs, schema());
}

async function readArgumentText(given: string, io: Io): Promise<string> {
  if (given === "-") return Promise.race([readStdin(io.stdin), rejectOnAbort(io.signal)]);
  if (!given.startsWith("@")) return given;
  const path = given.slice(1);
  return readFile(resolve(io.cwd, path), "utf8").catch((thrown) => {
    throw createArgumentsError(`the arguments in ${quoteName(path)} cannot be read: ${getErrorMessage(thrown)}`);
  });
}

/** Rejects when the user has had enough of typing. */
async function rejectOnAbort(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, "abort");
  throw new QmError("cancelled", "interrupted while reading the arguments");
}

async function readStdin(stdin: Io["stdin"]): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stdin) {
    chunks.push(Buffer.from(chunk));
    size += chunk.length;
    if (size > TEXT_LIMIT) throw createArgumentsError(`the arguments on stdin are longer than ${TEXT_LIMIT} bytes`);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parseJson(text: string, given: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    const where = given === "-" ? " on stdin" : given.startsWith("@") ? ` in ${quoteName(given.slice(1))}` : "";
    throw createArgumentsError(`the arguments${where} are not JSON: ${getErrorMessage(thrown)}`, HINT);
  }
}

const HINT = `Write them as '{"key": "value"}', or as --arg key=value; - reads stdin, @file.json a file.`;

/** `key=value` as the schema wants it, `key:=json` as it is written; a key that comes again makes a list. */
function parsePairs(pairs: readonly string[], schema: unknown): Record<string, unknown> {
  const properties = isRecord(schema) && isRecord(schema.properties) ? schema.properties : {};
  const args = new Map<string, unknown[]>();
  for (const pair of pairs) {
    const [, key, colon, text = ""] = /^([^=:]+)(:?)=(.*)$/s.exec(pair) ?? [];
    if (key === undefined) throw createArgumentsError(`--arg ${quoteName(pair)} is not key=value`);
    const value = colon === ":" ? parseJson(text, "") : parseValue(text, getOwn(properties, key));
    args.set(key, [...(args.get(key) ?? []), value]);
  }
  return Object.fromEntries([...args].map(([key, values]) => [key, values.length === 1 ? values[0] : values]));
}

function parseValue(text: string, schema: unknown): unknown {
  const type = isRecord(schema) ? schema.type : undefined;
  const item = isRecord(schema) && type === "array" && isRecord(schema.items) ? schema.items.type : type;
  if (item === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function createArgumentsError(message: string, hint?: string): QmError {
  return new QmError("invalid_arguments", message, hint === undefined ? {} : { hint });
}

interface InvokeOptions {
  readonly arg?: readonly string[];
  readonly timeout?: number;
  readonly keep?: boolean;
}

export function addInvokeCommand(program: Command, context: CommandContext): void {
  program
    .command("invoke")
    .summary("run an action")
    .description("Run an action and print its whole result: text as it is, anything else as JSON.")
    .argument("<action>", "its name, as in `qm list`")
    .argument("[args]", "its arguments: a JSON object, - for stdin, or @file.json")
    .option("--arg <key=value>", "one argument; key:=json for what is not text; may be repeated", collectOption)
    .option("--timeout <time>", "cancel it after 500ms, 30s, 2m; a bare number is seconds", parseTimeoutOption)
    .option("--keep", "keep a long result as a note and print what a model would be shown of it")
    .addHelpText(
      "after",
      formatExamples(
        `qm invoke file__read '{"path":"README.md"}'`,
        "qm invoke file__read --arg path=README.md --arg limit=5",
        "qm invoke file__write @note.json --timeout 5s",
      ),
    )
    .action((action: string, args: string | undefined, options: InvokeOptions) =>
      withWorkspace(context, "calls", (workspace) => runInvoke(context, workspace, action, args, options)),
    );
}

async function runInvoke(
  context: CommandContext,
  { quartermaster }: Workspace,
  action: string,
  given: string | undefined,
  { arg = [], timeout, keep = false }: InvokeOptions,
): Promise<void> {
  const { io, out, globals } = context;
  const caller = toCallerOptions(globals);
  const args = await readCallArguments(given, arg, io, () => getInputSchema(quartermaster, action, caller));
  const wipe = showProgress(io.stderr, toOneLine(action));
  const outcome = await quartermaster.invoke(action, args, {
    caller,
    signal: io.signal,
    via: "cli",
    keep,
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
  });
  wipe();

  context.end(getOutcomeExitCode(outcome, io.signal.aborted));
  if (out.isJson) return out.json(omitValue(outcome));
  if (outcome.action !== undefined && outcome.action !== action)
    out.note(`qm: ${toOneLine(action)} was taken for ${outcome.action}`);
  if (outcome.ranAs !== undefined)
    out.note(
      "qm: it was asked for before, and this is what became of it; nothing was run now. Call it again to run it again.",
    );
  if (outcome.status === "done" && keep && outcome.kept === undefined)
    out.note("qm: it is not kept: it is short, or the caller may not load notes");
  if (outcome.status === "done") return out.result(keep ? getModelData(outcome) : outcome.data);
  if (outcome.status === "waiting") return printOutcomeProblem(out, outcome);
  out.problem({
    ...outcome.error,
    ...(outcome.action === undefined ? {} : { action: outcome.action }),
    call_id: outcome.callId,
    ...(outcome.error.code === "cancelled" ? createCancelledHint(outcome.callId) : {}),
  });
}

/** Absent for what the caller does not see: that call is for the door to answer, and to write down. */
function getInputSchema(quartermaster: Workspace["quartermaster"], action: string, caller: CallerOptions): unknown {
  try {
    return quartermaster.describe(action, caller).input_schema;
  } catch {
    return undefined;
  }
}

/** `value` is the same again, cut to what a model is shown. */
function omitValue({ value: _value, ...outcome }: Outcome): object {
  return outcome;
}

function createCancelledHint(callId: string): { readonly hint: string } {
  return { hint: `What it had done by then is done. \`qm events --call ${callId}\` shows the call.` };
}
