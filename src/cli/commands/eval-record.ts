import { appendFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, extname, resolve } from "node:path";
import type { Command } from "commander";
import { messageOf, QmError } from "../../core/errors.ts";
import type { EvalCase } from "../../evals/case.ts";
import { type Context, withWorkspace } from "../context.ts";
import { examples } from "../options.ts";
import { counted, oneLine, plain } from "../text.ts";
import { meant, orUnknown } from "./replay.ts";

interface RecordFlags {
  readonly to: string;
  readonly turn?: boolean;
  readonly id?: string;
  readonly messages?: string;
  readonly prompt?: string;
  readonly force?: boolean;
}

export function addEvalRecord(evals: Command, context: Context): void {
  evals
    .command("record")
    // What `qm eval` takes means nothing here.
    .configureHelp({ showGlobalOptions: true, visibleGlobalOptions: () => [...context.program.options] })
    .summary("make a case of a session or a turn that went as it should")
    .description(
      "Make a case of what the ledger has: who called what, and what came of it. It expects the same calls; write into the file what else there is to expect. What was redacted in the ledger is redacted in the case.",
    )
    .argument("<id>", "a session; or a turn, where no session is called that")
    .requiredOption("--to <file>", "a .json file that is made, or a .jsonl file that gets one more line")
    .option("--turn", "it is a turn; with --session a turn of that session")
    .option("--id <text>", "the name of the case; else that of the turn or session")
    .option("--messages <file>", "JSON that the subject is to be given")
    .option("--prompt <file>", "the text of the prompt, to notice later that it is another one")
    .option("--force", "replace the .json file where there is one")
    .addHelpText(
      "after",
      examples(
        "qm eval record turn-7 --turn --to evals/refund.json",
        "qm eval record chat-1 --to cases.jsonl --prompt prompt.md",
      ),
    )
    .action((id: string, flags: RecordFlags) => {
      requireNone(evals);
      return record(context, id, flags);
    });
}

function requireNone(evals: Command): void {
  const given = evals.options.find((option) => evals.getOptionValueSource(option.attributeName()) === "cli");
  if (given === undefined) return;
  throw new QmError("invalid_arguments", `${given.long} means nothing to \`qm eval record\``, {
    hint: "`qm eval record --help` shows what it takes.",
  });
}

async function record(context: Context, id: string, flags: RecordFlags): Promise<void> {
  const { io, out } = context;
  const { recordCase } = await import("../../evals/record-case.ts");
  const [messages, prompt] = [await textIn(io.cwd, flags.messages), await textIn(io.cwd, flags.prompt)];
  const extras = {
    ...(flags.id === undefined ? {} : { id: flags.id }),
    ...(messages === undefined ? {} : { messages: parsed(messages, String(flags.messages)) }),
    ...(prompt === undefined ? {} : { prompt }),
  };
  const made = await orUnknown(context, () =>
    withWorkspace(context, "ledger", ({ quartermaster: { ledger } }) =>
      meant(context, id, flags.turn ?? false, (query) => recordCase(ledger, query, extras)),
    ),
  );
  if (made === undefined) return;
  await write(resolve(io.cwd, flags.to), made, flags.force ?? false);
  if (out.isJson) return out.json({ file: flags.to, case: made });
  out.line(
    `${counted(made.calls.length, "call")} of ${oneLine(id)} in ${plain(flags.to)}, as case ${oneLine(made.id)}.`,
  );
  out.line(
    "It expects the same calls. Write what else there is to expect under `expected`, and run it with `qm eval`.",
  );
}

async function write(file: string, made: EvalCase, force: boolean): Promise<void> {
  const isList = extname(file) === ".jsonl";
  if (!isList && extname(file) !== ".json")
    throw new QmError("invalid_arguments", `${file} is neither a .json nor a .jsonl file`, {
      hint: "Give one of them.",
    });
  try {
    await mkdir(dirname(file), { recursive: true });
    if (isList) await appendFile(file, `${JSON.stringify(made)}\n`);
    else await writeFile(file, `${JSON.stringify(made, undefined, 2)}\n`, { flag: force ? "w" : "wx" });
  } catch (thrown) {
    const isThere = thrown instanceof Error && "code" in thrown && thrown.code === "EEXIST";
    throw new QmError(
      "invalid_arguments",
      isThere ? `${file} is there already` : `${file} cannot be written: ${messageOf(thrown)}`,
      {
        cause: thrown,
        ...(isThere ? { hint: "Give another name, or --force to replace it." } : {}),
      },
    );
  }
}

async function textIn(cwd: string, file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  return readFile(resolve(cwd, file), "utf8").catch((thrown: unknown) => {
    throw new QmError("invalid_arguments", `${file} cannot be read: ${messageOf(thrown)}`, { cause: thrown });
  });
}

function parsed(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    throw new QmError("invalid_arguments", `${file} is not JSON: ${messageOf(thrown)}`, { cause: thrown });
  }
}
