import { Command, CommanderError } from "commander";
import { messageOf, QmError } from "../core/errors.ts";
import { packageFacts } from "../package-facts.ts";
import { Interrupted } from "./ask.ts";
import { addApprovals } from "./commands/approvals.ts";
import { addComplete } from "./commands/complete.ts";
import { addCompletion } from "./commands/completion.ts";
import { addConnect } from "./commands/connect.ts";
import { addDescribe } from "./commands/describe.ts";
import { addDirectory } from "./commands/directory.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addEmbeddings } from "./commands/embeddings.ts";
import { addEval } from "./commands/eval.ts";
import { addEvents } from "./commands/events.ts";
import { addExplain } from "./commands/explain.ts";
import { addHelp } from "./commands/help.ts";
import { addHints } from "./commands/hints.ts";
import { addImport } from "./commands/import.ts";
import { addInit } from "./commands/init.ts";
import { addInvoke } from "./commands/invoke.ts";
import { addList } from "./commands/list.ts";
import { addMcp } from "./commands/mcp.ts";
import { addNotes } from "./commands/notes.ts";
import { addPreflight } from "./commands/preflight.ts";
import { addReplay } from "./commands/replay.ts";
import { addSearch } from "./commands/search.ts";
import { addSecrets } from "./commands/secrets.ts";
import { addServe } from "./commands/serve.ts";
import { addServers } from "./commands/servers.ts";
import { addTour } from "./commands/tour.ts";
import type { Context, Globals } from "./context.ts";
import { type ExitCode, exitCodeOf, exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import { createOutput, type Output } from "./output.ts";

/** In the order of the help. Adding a command is one file and one line here. */
const commands = [
  addList,
  addSearch,
  addDescribe,
  addInvoke,
  addExplain,
  addApprovals,
  addEvents,
  addReplay,
  addEval,
  addNotes,
  addServers,
  addSecrets,
  addPreflight,
  addMcp,
  addServe,
  addEmbeddings,
  addDirectory,
  addHints,
  addImport,
  addConnect,
  addInit,
  addDoctor,
  addTour,
  addCompletion,
  addHelp,
  addComplete,
];

/** The whole program but for the process: arguments in, exit code out. Never rejects. */
export async function main(argv: readonly string[], io: Io): Promise<ExitCode> {
  let code: ExitCode = exitCodes.done;
  const program = createProgram(io);
  const context: Context = {
    io,
    program,
    get globals() {
      return program.opts<Globals>();
    },
    get out() {
      const { json = false, color } = program.opts<Globals>();
      return createOutput(io, { json, color });
    },
    end(ended) {
      code = ended;
    },
    run: main,
  };
  for (const add of commands) add(program, context);
  try {
    await program.parseAsync(argv.length === 0 ? ["--help"] : argv, { from: "user" });
    return code;
  } catch (thrown) {
    return reported(thrown, errorOutput(argv, io), io, program, argv);
  }
}

function createProgram({ stdout, stderr }: Io): Command {
  return new Command("qm")
    .description("One counter where LLM agents draw every action they may take.")
    .option("--config <path>", "use this configuration file, not the nearest quartermaster.yaml")
    .option("--actor <name>", "who asks: an actor of the configuration (in events: whose events)")
    .option("--session <id>", "the conversation it belongs to (in events: only this one)")
    .option("--tenant <id>", "the tenant it is for (in events: only this one)")
    .option("--user <id>", "the user it is for (in events: only this one)")
    .option("--json", "answer with one JSON document on stdout, errors included")
    .option("--no-color", "no colours, whatever the terminal can do")
    .version(packageFacts().version, "-V, --version", "print the version")
    .helpOption("-h, --help", "show this help")
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      // An error is told once, in our own form, by whoever catches it.
      outputError: () => {},
      getOutHelpWidth: () => stdout.columns ?? 80,
      getErrHelpWidth: () => stderr.columns ?? 80,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .addHelpText(
      "after",
      "\nExit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused,\n            4 unknown action or category, 130 interrupted; of preflight also\n            10 needs approval, 11 needs a login, 12 withheld, 13 not reachable.\n\nNew here? Try `qm tour`.",
    );
}

/** When the command line could not be read, its options are looked for by hand. */
function errorOutput(argv: readonly string[], io: Io): Output {
  const options = argv.slice(0, argv.includes("--") ? argv.indexOf("--") : argv.length);
  return createOutput(io, { json: options.includes("--json"), color: !options.includes("--no-color") });
}

function reported(thrown: unknown, out: Output, io: Io, program: Command, argv: readonly string[]): ExitCode {
  if (thrown instanceof CommanderError) {
    if (thrown.exitCode === 0) return exitCodes.done;
    // Help in place of a command is on stderr by now, and says it all.
    if (out.isJson || thrown.code !== "commander.help") out.problem(usageError(thrown, program, argv).toProblem());
    return exitCodes.usage;
  }
  const error = thrown instanceof QmError ? thrown : new QmError("internal", messageOf(thrown), { cause: thrown });
  out.problem(error.toProblem());
  if (error.code === "internal" && io.env.QM_DEBUG && thrown instanceof Error) out.note(thrown.stack ?? "");
  return exitCodeOf(error.code, io.signal.aborted || error instanceof Interrupted);
}

function usageError({ code, message }: CommanderError, program: Command, argv: readonly string[]): QmError {
  const [what = "", ...suggestions] = message.replace(/^error: /, "").split("\n");
  const help = `\`${["qm", ...namesOf(program, argv), "--help"].join(" ")}\` shows what there is.`;
  return new QmError("invalid_arguments", code === "commander.help" ? "no command was given" : what, {
    hint: [...suggestions.map((line) => line.replace(/^\((.*)\)$/, "$1")), help].join(" "),
  });
}

/** The command that was typed, as far down as there is one. What comes after a word that is none belongs to that. */
function namesOf(program: Command, argv: readonly string[]): readonly string[] {
  const names: string[] = [];
  let at = program;
  for (let place = 0; place < argv.length; place++) {
    const word = argv[place] ?? "";
    if (word.startsWith("-") && word !== "--") {
      const option = [...program.options, ...at.options].find(({ short, long }) => [short, long].includes(word));
      if (option?.required === true) place++;
      continue;
    }
    const found = at.commands.find((command) => [command.name(), ...command.aliases()].includes(word));
    if (found === undefined) break;
    names.push(found.name());
    at = found;
  }
  return names;
}
