import { chown, mkdir, realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext, Effect } from "../../core/action.ts";
import { quoteShellWord, toVisibleLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { describeSandbox, type SandboxSettings } from "../../core/sandbox.ts";
import { type ProgramPorts, runUntilEnd } from "./run-program.ts";

export interface ExecOptions extends ProgramPorts {
  /** Whether the sandbox isolates programs. Otherwise the description says so, and a person approves each call. */
  readonly isolated: boolean;
  readonly settings: SandboxSettings;
  /** The folder that programs start in and may change. It is created if it is missing. */
  readonly folder: string;
  readonly outputBytes: number;
  readonly timeoutMs: number;
  /** The longest time that a call may ask for. */
  readonly maxTimeoutMs: number;
  /** The variables of every program. Read for each, so that a secret stored later counts. */
  readonly readEnv: () => Readonly<Record<string, string>>;
  /** The variables that a call may set. */
  readonly allowEnv: readonly string[];
}

const CONCURRENCY = 4;
const ARGUMENT_CHARS = 100_000;
const STDIN_CHARS = 1_000_000;
/** For starting and ending a program, beside its own time. */
const OVERHEAD_MS = 30_000;

const SPLIT_NOTE = "argv has one item. Give the program and each of its arguments as an item of its own.";

const noNul = (text: string) => !text.includes("\0");
const plainText = (limit: number) => z.string().max(limit).refine(noNul, "cannot hold NUL characters");

function createInput({ allowEnv, timeoutMs, maxTimeoutMs }: ExecOptions) {
  const names = Object.fromEntries(allowEnv.map((name) => [name, plainText(ARGUMENT_CHARS).optional()]));
  return z.strictObject({
    argv: z
      .array(plainText(ARGUMENT_CHARS))
      .min(1)
      .max(1_000)
      .describe(
        "The program and its arguments, one item each. No shell interprets them: no pipes, globs or variables.",
      ),
    cwd: plainText(4_096)
      .optional()
      .describe("The folder to start in, relative to the work folder. Absent: the work folder."),
    stdin: z.string().max(STDIN_CHARS).optional().describe("Text for its standard input."),
    timeout_ms: z
      .int()
      .min(1)
      .max(maxTimeoutMs)
      .optional()
      .describe(`It is stopped after this time. Absent: ${timeoutMs}. At most ${maxTimeoutMs}.`),
    ...(allowEnv.length === 0
      ? {}
      : { env: z.strictObject(names).optional().describe("Further environment variables.") }),
  });
}

type RunArguments = z.output<ReturnType<typeof createInput>> & { readonly env?: Readonly<Record<string, string>> };

/** Runs programs, each in a sandbox of its own. */
export function createExecAction(options: ExecOptions): Action {
  const { isolated, settings } = options;
  return defineAction("exec", {
    entry: "run",
    description: describe(options),
    effect: chooseEffect(options),
    tags: ["exec", "destructive"],
    input: createInput(options),
    timeoutMs: options.maxTimeoutMs + OVERHEAD_MS,
    concurrency: CONCURRENCY,
    normalize: { cwd: "path" },
    ...(isolated ? {} : { requiresApproval: true }),
    examples: [
      { args: { argv: ["ls", "-l"] } },
      { args: { argv: ["sort", "-n"], stdin: "3\n1\n2\n" }, description: "Gives the program some input" },
    ],
    async preview(args) {
      const { argv, cwd } = args as unknown as RunArguments;
      const command = argv.map((word) => quoteShellWord(toVisibleLine(word))).join(" ");
      const place = cwd === undefined ? options.folder : join(options.folder, cwd);
      const how = isolated ? describeSandbox(settings) : "NOT isolated: it can do everything that Quartermaster can";
      return `runs ${command}\nin ${place}, ${how}`;
    },
    run: (args, context) => run(options, args as RunArguments, context),
  });
}

function describe({ isolated, settings: { network, read, write } }: ExecOptions): string {
  const [, ...others] = write;
  const files = [
    read.length === 0 ? "" : ` It can read ${read.join(", ")}.`,
    others.length === 0 ? "" : ` It can also change ${others.join(", ")}.`,
  ].join("");
  const reach = isolated
    ? `It runs in a sandbox: it sees the system's programs and the work folder, which it can change, ${
        network ? "and can use the network" : "and no network"
      }.${files} All its processes end with the call.`
    : "It is NOT isolated: it runs with all rights of this system, so a person approves each call.";
  return `Run a program, given as a list of arguments, and get its exit code and output. ${reach}`;
}

/** Without a network, a program can change the granted files and nothing else. */
function chooseEffect({ isolated, settings: { network } }: ExecOptions): Effect {
  if (!isolated) return "stateful";
  return network ? "external" : "write";
}

async function run(options: ExecOptions, args: RunArguments, { signal }: CallContext) {
  const { settings, outputBytes } = options;
  const { argv, stdin = "", timeout_ms: timeoutMs = options.timeoutMs, env = {} } = args;
  if (argv[0] === "") throw new QmError("invalid_arguments", "the first item of argv must be the name of a program");
  const cwd = await resolveFolder(options, args.cwd ?? ".");
  const variables = { ...options.readEnv(), ...(omitUndefined(env) as Record<string, string>) };
  const end = await runUntilEnd(
    { settings, command: argv, cwd, env: variables, stdin, timeoutMs, outputBytes },
    options,
    signal,
  );
  const isMissing = end.code === 127 && /^prlimit: failed to execute /.test(end.stderr.text);
  return omitUndefined({
    exit_code: end.code ?? null,
    signal: end.signal,
    stdout: end.stdout.text,
    // The helper that sets the limits is not what the caller named.
    stderr: end.stderr.text.replace(/^prlimit: failed to execute /, "cannot run "),
    note: isMissing && argv.length === 1 && /\s/.test(argv[0] ?? "") ? SPLIT_NOTE : undefined,
    stdout_truncated: end.stdout.truncated || undefined,
    stderr_truncated: end.stderr.truncated || undefined,
    timed_out: end.stopped === "timeout",
    stopped: end.stopped === "output" ? "it wrote too much output" : undefined,
  });
}

/** The folder to start in, with links followed. It must be a folder inside the work folder. */
async function resolveFolder({ folder, sandbox }: ExecOptions, cwd: string): Promise<string> {
  if ((await stat(folder).catch(() => undefined)) === undefined) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    // If this process is root, the folder belongs to the user around it, and programs run as that user.
    const user = await sandbox.chooseUser(dirname(folder));
    if (user !== undefined) await chown(folder, user.uid, user.gid);
  }
  const root = await realpath(folder);
  const place = await realpath(resolve(root, cwd)).catch(() => undefined);
  const way = place === undefined ? "" : relative(root, place);
  if (isAbsolute(cwd) || way === ".." || way.startsWith(`..${sep}`) || isAbsolute(way))
    throw new QmError("path_refused", `cwd (${quoteName(cwd)}) is not inside the work folder`, {
      hint: "Give a path relative to the work folder, or leave cwd out.",
    });
  if (place !== undefined && (await stat(place)).isDirectory()) return place;
  throw new QmError("not_found", `cwd (${quoteName(cwd)}) is not a folder`, {
    hint: "Create it first, or leave cwd out.",
  });
}
