import { Command, CommanderError } from "commander";
import { readPackageInfo } from "../app/system-runtime.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";
import { didYouMean } from "../core/nearest.ts";
import { addApprovalsCommand } from "./commands/approvals.ts";
import { addConnectCommand, addImportCommand } from "./commands/clients.ts";
import { addCompleteCommand, addCompletionCommand } from "./commands/completion.ts";
import { addDescribeCommand, addExplainCommand } from "./commands/describe.ts";
import { addDoctorCommand } from "./commands/doctor.ts";
import { addEmbeddingsCommand } from "./commands/embeddings.ts";
import { addEvalCommand } from "./commands/eval.ts";
import { addEventsCommand } from "./commands/events.ts";
import { addInitCommand } from "./commands/init.ts";
import { addInvokeCommand } from "./commands/invoke.ts";
import { addDirectoryCommand, addListCommand } from "./commands/list.ts";
import { addNotesCommand } from "./commands/notes.ts";
import { addPreflightCommand } from "./commands/preflight.ts";
import { addReplayCommand } from "./commands/replay.ts";
import { addHintsCommand, addSearchCommand } from "./commands/search.ts";
import { addSecretsCommand } from "./commands/secrets.ts";
import { addMcpCommand, addServeCommand } from "./commands/serve.ts";
import { addServersCommand } from "./commands/servers.ts";
import { addTourCommand } from "./commands/tour.ts";
import type { CommandContext, GlobalOptions, Io } from "./context.ts";
import { type ExitCode, exitCodes, getExitCode } from "./exit-codes.ts";
import { type CommandOutput, createOutput } from "./output.ts";
import { InterruptedError } from "./terminal.ts";

function addHelpCommand(program: Command): void {
  program
    .command("help")
    .summary("show the help of a command")
    .description("Show the help of a command, or of the program.")
    .argument("[command...]", "the command, as in `qm help events verify`")
    .action((names: readonly string[]) => findCommand(program, names).help());
}

function findCommand(program: Command, names: readonly string[]): Command {
  let command = program;
  for (const name of names) {
    const below = command.commands.find((each) => each.name() === name);
    if (below === undefined) throw createUnknownCommandError(name, command);
    command = below;
  }
  return command;
}

function createUnknownCommandError(name: string, above: Command): QmError {
  const known = above.createHelp().visibleCommands(above);
  const near = didYouMean(
    name,
    known.map((each) => each.name()),
  );
  return new QmError("invalid_arguments", `unknown command ${quoteName(name)}${near}`, {
    hint: "`qm --help` shows what there is.",
  });
}

/** In the order of the help. Adding a command is one file and one line here. */
const commands = [
  addListCommand,
  addSearchCommand,
  addDescribeCommand,
  addInvokeCommand,
  addExplainCommand,
  addApprovalsCommand,
  addEventsCommand,
  addReplayCommand,
  addEvalCommand,
  addNotesCommand,
  addServersCommand,
  addSecretsCommand,
  addPreflightCommand,
  addMcpCommand,
  addServeCommand,
  addEmbeddingsCommand,
  addDirectoryCommand,
  addHintsCommand,
  addImportCommand,
  addConnectCommand,
  addInitCommand,
  addDoctorCommand,
  addTourCommand,
  addCompletionCommand,
  addHelpCommand,
  addCompleteCommand,
];

/** The whole program but for the process: arguments in, exit code out. Never rejects. */
export async function main(argv: readonly string[], io: Io): Promise<ExitCode> {
  let code: ExitCode = exitCodes.done;
  const program = createProgram(io);
  const context: CommandContext = {
    io,
    program,
    get globals() {
      return program.opts<GlobalOptions>();
    },
    get out() {
      const { json = false, color } = program.opts<GlobalOptions>();
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
    return reportError(thrown, createErrorOutput(argv, io), io, program, argv);
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
    .version(readPackageInfo().version, "-V, --version", "print the version")
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
function createErrorOutput(argv: readonly string[], io: Io): CommandOutput {
  const options = argv.slice(0, argv.includes("--") ? argv.indexOf("--") : argv.length);
  return createOutput(io, { json: options.includes("--json"), color: !options.includes("--no-color") });
}

function reportError(thrown: unknown, out: CommandOutput, io: Io, program: Command, argv: readonly string[]): ExitCode {
  if (thrown instanceof CommanderError) {
    if (thrown.exitCode === 0) return exitCodes.done;
    // Help in place of a command is on stderr by now, and says it all.
    if (out.isJson || thrown.code !== "commander.help")
      out.problem(createUsageError(thrown, program, argv).toProblem());
    return exitCodes.usage;
  }
  const error =
    thrown instanceof QmError ? thrown : new QmError("internal", getErrorMessage(thrown), { cause: thrown });
  out.problem(error.toProblem());
  if (error.code === "internal" && io.env.QM_DEBUG && thrown instanceof Error) out.note(thrown.stack ?? "");
  return getExitCode(error.code, io.signal.aborted || error instanceof InterruptedError);
}

function createUsageError({ code, message }: CommanderError, program: Command, argv: readonly string[]): QmError {
  const [what = "", ...suggestions] = message.replace(/^error: /, "").split("\n");
  const help = `\`${["qm", ...findCommandPath(program, argv), "--help"].join(" ")}\` shows what there is.`;
  return new QmError("invalid_arguments", code === "commander.help" ? "no command was given" : what, {
    hint: [...suggestions.map((line) => line.replace(/^\((.*)\)$/, "$1")), help].join(" "),
  });
}

/** The command that was typed, as far down as there is one. What comes after a word that is none belongs to that. */
function findCommandPath(program: Command, argv: readonly string[]): readonly string[] {
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
