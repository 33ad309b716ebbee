import { Command, CommanderError, type Option } from "commander";
import { readPackageInfo } from "../app/system-runtime.ts";
import { QmError, toQmError } from "../core/errors.ts";
import { cliHintWords } from "../core/hint.ts";
import { quoteName } from "../core/names.ts";
import { didYouMean } from "../core/nearest.ts";
import type { Context, GlobalOptions, Io } from "./context.ts";
import { createUsageError, type ExitCode, exitCodes, getExitCode } from "./exit-codes.ts";
import { listUsedOptions, refuseUnusedOptions } from "./global-options.ts";
import { createOutput } from "./output.ts";
import { InterruptedError } from "./terminal.ts";

type AddCommand = (program: Command, context: Context) => void;

/** In the order of the help. `main` loads only the module of the command that runs; help and completion load all. */
const commands: readonly (readonly [name: string, load: () => Promise<AddCommand>])[] = [
  ["list", async () => (await import("./commands/list.ts")).addListCommand],
  ["search", async () => (await import("./commands/search.ts")).addSearchCommand],
  ["describe", async () => (await import("./commands/describe.ts")).addDescribeCommand],
  ["invoke", async () => (await import("./commands/invoke.ts")).addInvokeCommand],
  ["explain", async () => (await import("./commands/describe.ts")).addExplainCommand],
  ["chat", async () => (await import("./commands/actors.ts")).addChatCommand],
  ["run", async () => (await import("./commands/actors.ts")).addRunCommand],
  ["sessions", async () => (await import("./commands/actors.ts")).addSessionsCommand],
  ["approvals", async () => (await import("./commands/approvals.ts")).addApprovalsCommand],
  ["events", async () => (await import("./commands/events.ts")).addEventsCommand],
  ["replay", async () => (await import("./commands/replay.ts")).addReplayCommand],
  ["eval", async () => (await import("./commands/eval.ts")).addEvalCommand],
  ["notes", async () => (await import("./commands/notes.ts")).addNotesCommand],
  ["memory", async () => (await import("./commands/memory.ts")).addMemoryCommand],
  ["servers", async () => (await import("./commands/servers.ts")).addServersCommand],
  ["apis", async () => (await import("./commands/apis.ts")).addApisCommand],
  ["skills", async () => (await import("./commands/skills.ts")).addSkillsCommand],
  ["models", async () => (await import("./commands/models.ts")).addModelsCommand],
  ["peers", async () => (await import("./commands/peers.ts")).addPeersCommand],
  ["worlds", async () => (await import("./commands/worlds.ts")).addWorldsCommand],
  ["secrets", async () => (await import("./commands/secrets.ts")).addSecretsCommand],
  ["backup", async () => (await import("./commands/backup.ts")).addBackupCommand],
  ["restore", async () => (await import("./commands/backup.ts")).addRestoreCommand],
  ["preflight", async () => (await import("./commands/preflight.ts")).addPreflightCommand],
  ["mcp", async () => (await import("./commands/serve.ts")).addMcpCommand],
  ["serve", async () => (await import("./commands/serve.ts")).addServeCommand],
  ["embeddings", async () => (await import("./commands/embeddings.ts")).addEmbeddingsCommand],
  ["prompt", async () => (await import("./commands/prompt.ts")).addPromptCommand],
  ["directory", async () => (await import("./commands/list.ts")).addDirectoryCommand],
  ["hints", async () => (await import("./commands/search.ts")).addHintsCommand],
  ["import", async () => (await import("./commands/clients.ts")).addImportCommand],
  ["connect", async () => (await import("./commands/clients.ts")).addConnectCommand],
  ["init", async () => (await import("./commands/init.ts")).addInitCommand],
  ["doctor", async () => (await import("./commands/doctor.ts")).addDoctorCommand],
  ["tour", async () => (await import("./commands/tour.ts")).addTourCommand],
  ["completion", async () => (await import("./commands/completion.ts")).addCompletionCommand],
  ["help", async () => addHelpCommand],
  ["complete", async () => (await import("./commands/completion.ts")).addCompleteCommand],
];

/** The whole program except for the process: arguments in, exit code out. Never rejects. */
export async function main(argv: readonly string[], io: Io): Promise<ExitCode> {
  let code: ExitCode = exitCodes.done;
  const program = createProgram(io);
  const context: Context = {
    io,
    program,
    get globals() {
      return program.opts<GlobalOptions>();
    },
    get out() {
      const { json = false, color } = program.opts<GlobalOptions>();
      return createOutput(io, json, color);
    },
    end(ended) {
      code = ended;
    },
    run: main,
  };
  try {
    for (const add of await loadCommands(program, argv)) add(program, context);
    await program.parseAsync(argv.length === 0 ? ["--help"] : argv, { from: "user" });
    return code;
  } catch (thrown) {
    return reportError(thrown, io, program, argv);
  }
}

async function loadCommands(program: Command, argv: readonly string[]): Promise<readonly AddCommand[]> {
  const name = argv[findOperand(argv, program.options)];
  if (name === undefined && argv.some((word) => word === "--version" || word === "-V")) return [];
  const isOne = name !== "help" && name !== "complete" && commands.some(([each]) => each === name);
  return Promise.all(commands.filter(([each]) => !isOne || each === name).map(([, load]) => load()));
}

function createProgram({ stdout, stderr }: Io): Command {
  const program = new Command("qm");
  return program
    .description("One gateway for every tool your agents may call, with policy, approvals and an audit log.")
    .option("--config <path>", "use this configuration file instead of the nearest quartermaster.yaml")
    .option("--actor <name>", "act as this configured actor (for events: filter by actor)")
    .option("--session <id>", "use this session (for events: filter by session)")
    .option("--tenant <id>", "act for this tenant (for events: filter by tenant)")
    .option("--user <id>", "act for this user (for events: filter by user)")
    .option("--json", "print one JSON document on stdout, errors included")
    .option("--no-color", "print without colours")
    .version(readPackageInfo().version, "-V, --version", "print the version")
    .helpOption("-h, --help", "show this help")
    .exitOverride()
    .hook("preAction", (_program, command) => refuseUnusedOptions(program, command))
    .configureHelp({ showGlobalOptions: true, visibleGlobalOptions: (command) => listUsedOptions(program, command) })
    .configureOutput({
      writeOut: (text) => stdout.write(text),
      writeErr: (text) => stderr.write(text),
      // `reportError` prints errors.
      outputError: () => {},
      getOutHelpWidth: () => stdout.columns ?? 80,
      getErrHelpWidth: () => stderr.columns ?? 80,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .addHelpText("after", EXIT_CODES_HELP);
}

const EXIT_CODES_HELP = `
Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused,
            4 unknown action or category, 130 interrupted; preflight, run, chat:
            10 needs approval, 11 needs a login, 12 withheld, 13 unreachable,
            14 needs an answer.

New here? Run \`qm tour\`.`;

function reportError(thrown: unknown, io: Io, program: Command, argv: readonly string[]): ExitCode {
  // Commander may have failed before it read --json and --no-color.
  const options = argv.slice(0, argv.includes("--") ? argv.indexOf("--") : argv.length);
  const out = createOutput(io, options.includes("--json"), !options.includes("--no-color"));
  if (thrown instanceof CommanderError) {
    if (thrown.exitCode === 0) return exitCodes.done;
    // Without a command, commander has already printed the help to stderr.
    if (out.isJson || thrown.code !== "commander.help") out.problem(toUsageError(thrown, program, argv).toProblem());
    return exitCodes.usage;
  }
  const error = toQmError(thrown);
  out.problem(error.toProblem(cliHintWords));
  if (error.code === "internal" && io.env.QM_DEBUG && thrown instanceof Error) out.note(thrown.stack ?? "");
  return getExitCode(error.code, io.signal.aborted || error instanceof InterruptedError);
}

function toUsageError({ code, message }: CommanderError, program: Command, argv: readonly string[]): QmError {
  const [what = "", ...suggestions] = message.replace(/^error: /, "").split("\n");
  const help = `Run \`${["qm", ...findCommandPath(program, argv), "--help"].join(" ")}\` for the usage.`;
  const hint = [...suggestions.map((line) => line.replace(/^\((.*)\)$/, "$1")), help].join(" ");
  return new QmError("invalid_arguments", code === "commander.help" ? "no command was given" : what, { hint });
}

/** The names of the command and subcommands in `argv`, as far as they exist. */
function findCommandPath(program: Command, argv: readonly string[]): readonly string[] {
  const names: string[] = [];
  for (let command = program, index = -1; ; ) {
    index = findOperand(argv, [...program.options, ...command.options], index + 1);
    const found = command.commands.find((each) => [each.name(), ...each.aliases()].includes(argv[index] ?? ""));
    if (found === undefined) return names;
    names.push(found.name());
    command = found;
  }
}

/** The index of the first word that is neither an option nor the value of one. */
function findOperand(argv: readonly string[], options: readonly Option[], from = 0): number {
  let index = from;
  for (; index < argv.length; index++) {
    const word = argv[index] ?? "";
    if (!word.startsWith("-") || word === "--") break;
    if (options.find(({ short, long }) => short === word || long === word)?.required === true) index++;
  }
  return index;
}

function addHelpCommand(program: Command): void {
  program
    .command("help")
    .summary("show the help of a command")
    .description("Show the help of a command, or of the program.")
    .argument("[command...]", "the command, for example `qm help events verify`")
    .action((names: readonly string[]) => names.reduce(findCommand, program).help());
}

function findCommand(parent: Command, name: string): Command {
  const found = parent.commands.find((each) => each.name() === name);
  if (found !== undefined) return found;
  const visible = parent.createHelp().visibleCommands(parent);
  const names = visible.map((each) => each.name());
  const message = `unknown command ${quoteName(name)}${didYouMean(name, names)}`;
  throw createUsageError(message, "Run `qm --help` for the list of commands.");
}
