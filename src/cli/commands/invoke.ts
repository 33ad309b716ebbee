import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import type { CallerOptions } from "../../app/options.ts";
import { type Dialogue, SAY_LOGGER } from "../../core/caller.ts";
import { escapeUnsafe, toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { getOwn, isRecord, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { getModelData } from "../../core/outcome.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, type Io, inWorkspace, toCallerOptions } from "../context.ts";
import { createUsageError, getOutcomeExitCode } from "../exit-codes.ts";
import { collectOption, examples, parseTimeoutOption } from "../option-parsers.ts";
import { printOutcomeProblem } from "../output.ts";
import { readChunks, showProgress } from "../terminal.ts";
import { findListCommand } from "./describe.ts";

type InvokeOptions = { readonly arg?: readonly string[]; readonly timeout?: number; readonly keep?: boolean };

export function addInvokeCommand(program: Command, context: Context): void {
  program
    .command("invoke")
    .summary("run an action")
    .description("Run an action and print its whole result: text unchanged, anything else as JSON.")
    .argument("<action>", "its name, as in `qm list`")
    .argument("[args]", "its arguments: a JSON object, - for stdin, or @file.json")
    .option("--arg <key=value>", "one argument; key:=json for a value that is not text; may be repeated", collectOption)
    .option("--timeout <time>", "cancel it after 500ms, 30s, 2m; a bare number is seconds", parseTimeoutOption)
    .option("--keep", "store a long result as a note and print what a model would see of it")
    .addHelpText(
      ...examples(
        `qm invoke file__read '{"path":"README.md"}'`,
        "qm invoke file__read --arg path=README.md --arg limit=5",
        "qm invoke file__write @note.json --timeout 5s",
      ),
    )
    .action(inWorkspace(context, "calls", runInvoke));
}

async function runInvoke(
  context: Context,
  { quartermaster }: Workspace,
  name: string,
  argText: string | undefined,
  { arg = [], timeout: timeoutMs, keep = false }: InvokeOptions,
) {
  const { io, out, globals } = context;
  const caller = toCallerOptions(globals);
  const args = await readCallArguments(argText, arg, io, () => getInputSchema(quartermaster, name, caller));
  const stopProgress = showProgress(io.stderr, toOneLine(name));
  const dialogue = createSayDialogue(io.stderr, stopProgress);
  const options = { caller, signal: io.signal, via: "cli", keep, dialogue, ...omitUndefined({ timeoutMs }) };
  const outcome = await quartermaster.invoke(name, args, options);
  stopProgress();
  dialogue.end();

  const { value: _shortened, ...answer } = outcome;
  const { status, action, callId } = outcome;
  context.end(getOutcomeExitCode(outcome, io.signal.aborted));
  if (out.isJson) return out.json(answer);
  if (action !== undefined && action !== name) out.note(`qm: read ${toOneLine(name)} as ${action}`);
  if (outcome.ranAs !== undefined)
    out.note("qm: this is the result of the same call made earlier; nothing was run now. Call it again to run it.");
  if (status === "done" && keep && outcome.kept === undefined)
    out.note("qm: the result was not stored: it is short, or the caller may not load notes");
  if (status === "done") return out.result(keep ? getModelData(outcome) : outcome.data);
  if (status === "waiting") return printOutcomeProblem(out, outcome);
  const { error } = outcome;
  const cancelled = `Effects up to then remain. \`qm events --call ${callId}\` shows the call.`;
  const hint = error.code === "cancelled" ? cancelled : error.hint;
  const listedBy = findListCommand(name);
  out.problem({ ...error, ...omitUndefined({ action, hint, listed_by: listedBy }), call_id: callId });
}

/** Prints messages to the user as they come, and on a terminal the progress. Asks nothing. */
function createSayDialogue(stderr: Io["stderr"], onProgress: () => void): Dialogue & { end(): void } {
  let isShown = false;
  return {
    owner: "cli",
    capabilities: {},
    progress({ progress, total, message = "" }) {
      if (!stderr.isTTY) return;
      // One line: what the action says about its progress, instead of how long it has been running.
      if (!isShown) onProgress();
      isShown = true;
      const count = total === undefined ? `${progress}` : `${progress} of ${total}`;
      stderr.write(`\r\u001B[K${toOneLine(`${count} ${message}. Ctrl-C cancels it.`)}`);
    },
    end() {
      if (isShown) stderr.write("\r\u001B[K");
    },
    log({ logger, data }) {
      // On a terminal, the line about the progress is overwritten.
      const start = stderr.isTTY ? "\r\u001B[K" : "";
      if (logger === SAY_LOGGER && typeof data === "string") stderr.write(`${start}${escapeUnsafe(data)}\n`);
    },
    ask: () => Promise.reject(new QmError("action_failed", "the command line cannot be asked")),
  };
}

/** Undefined if the caller cannot see the action: the invocation itself reports and records that. */
function getInputSchema(quartermaster: Workspace["quartermaster"], action: string, caller: CallerOptions): unknown {
  try {
    return quartermaster.describe(action, caller).input_schema;
  } catch {
    return undefined;
  }
}

/** More than an invocation accepts, and little enough to hold in memory. */
const MAX_BYTES = 16 * 1024 * 1024;
type Pairs = readonly string[];

/** Reads the arguments of a call from any of the supported forms. Default: `{}`. Throws `invalid_arguments`. */
export async function readCallArguments(text: string | undefined, pairs: Pairs, io: Io, getSchema: () => unknown) {
  if (pairs.length === 0) return text === undefined ? {} : parseJson(await readArgumentText(text, io), text);
  if (text !== undefined) throw createUsageError("give the arguments as JSON or with --arg, not both");
  return parsePairs(pairs, getSchema());
}

async function readArgumentText(text: string, io: Io): Promise<string> {
  if (text === "-") return readStdin(io, "arguments");
  if (!text.startsWith("@")) return text;
  const path = text.slice(1);
  return readFile(resolve(io.cwd, path), "utf8").catch((thrown) => {
    throw createUsageError(`the arguments in ${quoteName(path)} cannot be read: ${getErrorMessage(thrown)}`);
  });
}

/** Throws `invalid_arguments` if it is too long. `what`: how the error names it. */
export async function readStdin(io: Io, what: string): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of readChunks(io, `interrupted while reading the ${what}`)) {
    chunks.push(Buffer.from(chunk));
    size += chunk.length;
    if (size > MAX_BYTES) throw createUsageError(`the ${what} on stdin are longer than ${MAX_BYTES} bytes`);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function parseJson(text: string, source: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    const where = source === "-" ? " on stdin" : source.startsWith("@") ? ` in ${quoteName(source.slice(1))}` : "";
    const hint = `Write them as '{"key": "value"}', or as --arg key=value; - reads stdin, @file.json a file.`;
    throw createUsageError(`the arguments${where} are not JSON: ${getErrorMessage(thrown)}`, hint);
  }
}

/** Converts `key=value` to the type in the schema and parses `key:=json`. A repeated key makes a list. */
function parsePairs(pairs: Pairs, schema: unknown): Record<string, unknown> {
  const properties = isRecord(schema) && isRecord(schema.properties) ? schema.properties : {};
  const args = new Map<string, unknown[]>();
  for (const pair of pairs) {
    const [, key, colon, text = ""] = /^([^=:]+)(:?)=(.*)$/s.exec(pair) ?? [];
    if (key === undefined) throw createUsageError(`--arg ${quoteName(pair)} is not key=value`);
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
