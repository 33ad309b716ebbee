import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { homedir, tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import type { CallContext } from "../../../core/action.ts";
import { QmError } from "../../../core/errors.ts";
import type { JsonObject } from "../../../core/json.ts";
import { SYSTEM_PATH } from "../../../core/sandbox.ts";
import { NODE_RUNNER } from "./node-runner.ts";
import { type ProgramHost, type ProgramLaunch, runProgram } from "./program.ts";
import { PYTHON_RUNNER } from "./python-runner.ts";
import type { ToolFile } from "./tool-file.ts";

export interface ToolRun {
  /** The name of the skill, for messages. */
  readonly name: string;
  readonly file: ToolFile;
  /** The files of the skill, by path. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  readonly args: JsonObject;
  readonly timeoutMs: number;
}

/** Runs the tools of code skills, each call in a process of its own. */
export interface ToolPrograms {
  run(tool: ToolRun, context: CallContext): Promise<unknown>;
  /** Why tools of this kind cannot run on this machine. Undefined: they can. */
  findProblem(file: ToolFile): string | undefined;
  /** Resolves when all programs are gone. The calls themselves must have been cancelled. */
  close(): Promise<void>;
}

const HEAP_MB = 256;
/** More than the heap: buffers and threads take memory beside it. */
const NODE_DATA_MB = 512;
const PYTHON_MB = 256;
/** All skills together. A tool that calls itself ends here, too. */
const PROGRAM_LIMIT = 8;
const NO_PYTHON = "it needs Python 3.8 or newer, and there is no `python3` on the PATH";

export function createToolPrograms(host: ProgramHost): ToolPrograms {
  const running = new Set<Promise<unknown>>();
  let python: Promise<string | undefined> | undefined;
  let hasPython: boolean | undefined;

  async function runInFolder(tool: ToolRun, context: CallContext): Promise<unknown> {
    const folder = await realpath(await mkdtemp(join(tmpdir(), "qm-skill-")));
    try {
      await writeFiles(join(folder, "skill"), tool.files);
      return await runProgram(await prepareLaunch(tool, folder), context, host);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  async function prepareLaunch(
    { name, file, files, args, timeoutMs }: ToolRun,
    folder: string,
  ): Promise<ProgramLaunch> {
    const root = join(folder, "skill");
    const shared = { name, folder, cwd: root, cpuSeconds: Math.ceil(timeoutMs / 1000) * 2 };
    const request = { folder: root, file, args };
    if (file !== "tool.py") {
      // Loaded by the program, not here: it parses text that may be hostile.
      const hasTypes = [...files.keys()].some((path) => path.endsWith(".ts"));
      const amaro = hasTypes ? createRequire(import.meta.url).resolve("amaro") : undefined;
      const readable = [root, ...(amaro === undefined ? [] : [dirname(amaro)])];
      const command = [host.nodePath, ...listNodeOptions(readable), "--eval", NODE_RUNNER];
      const all = [host.nodePath, ...readable];
      return { ...shared, command, readable: all, memory: ["-d", NODE_DATA_MB], request: { ...request, amaro } };
    }
    // A Python in the home folder of a person would have to be granted to a sandbox.
    python ??= findPython(
      host.sandbox === undefined ? host.searchPath : `${SYSTEM_PATH}${delimiter}${host.searchPath}`,
    );
    const program = await python;
    if (program === undefined) throw new QmError("action_failed", `the skill ${name} cannot run: ${NO_PYTHON}`);
    return {
      ...shared,
      command: [program, "-I", "-B", "-X", "utf8", "-c", PYTHON_RUNNER],
      readable: [root],
      memory: ["-v", PYTHON_MB],
      request,
    };
  }

  return {
    async run(tool, context) {
      const problem = findProblem(tool.file);
      if (problem !== undefined) throw new QmError("action_failed", `the skill ${tool.name} cannot run: ${problem}`);
      if (running.size >= PROGRAM_LIMIT) {
        const message = `${PROGRAM_LIMIT} programs of skills are running`;
        throw new QmError("overloaded", message, { hint: "Try again when some have ended." });
      }
      const work = runInFolder(tool, context);
      running.add(work);
      try {
        return await work;
      } finally {
        running.delete(work);
      }
    },
    findProblem,
    async close() {
      await Promise.allSettled(running);
    },
  };

  function findProblem(file: ToolFile): string | undefined {
    if (process.platform === "win32") return "skills of the type code cannot run on Windows";
    if (file !== "tool.py") return undefined;
    // Asked for each skill of a list, so the disk is asked once.
    hasPython ??= findOnPath("python3", host.searchPath) !== undefined;
    return hasPython ? undefined : NO_PYTHON;
  }
}

/** The files of a skill, readable by this user only. */
async function writeFiles(root: string, files: ToolRun["files"]): Promise<void> {
  await mkdir(root, { mode: 0o700 });
  for (const [path, bytes] of files) {
    const file = join(root, path);
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    await writeFile(file, bytes, { mode: 0o400, flag: "wx" });
  }
}

/** The option lost its prefix in Node 22.13. */
const [MAJOR = 0, MINOR = 0] = process.versions.node.split(".").map(Number);
const PERMISSION = MAJOR > 22 || (MAJOR === 22 && MINOR >= 13) ? "--permission" : "--experimental-permission";

const listNodeOptions = (readable: readonly string[]): readonly string[] => [
  PERMISSION,
  ...readable.map((folder) => `--allow-fs-read=${folder}/`),
  "--experimental-vm-modules",
  "--disallow-code-generation-from-strings",
  "--no-warnings",
  `--max-old-space-size=${HEAP_MB}`,
  "--input-type=module",
];

function findOnPath(program: string, searchPath: string): string | undefined {
  const found = searchPath
    .split(delimiter)
    .filter(Boolean)
    .map((folder) => join(folder, program));
  return found.find((file) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

const VERSION_CHECK = "import sys; print(sys.executable if sys.version_info >= (3, 8) else '')";

/** `python3` may be a script that chooses a version by the environment, which tools do not get. So ask it for the real one. */
async function findPython(searchPath: string): Promise<string | undefined> {
  const found = findOnPath("python3", searchPath);
  if (found === undefined) return undefined;
  const env = { PATH: searchPath, HOME: homedir() };
  const { stdout } = await promisify(execFile)(found, ["-I", "-c", VERSION_CHECK], { env, timeout: 10_000 });
  return stdout.trim() === "" ? undefined : stdout.trim();
}
