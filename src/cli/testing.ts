import { type ChildProcess, spawn } from "node:child_process";
import { link, mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findCompiled } from "../../test/support/compiled.ts";
import { openWorkspace } from "../workspace/workspace.ts";
import type { Io } from "./context.ts";
import { main } from "./main.ts";

/** Helpers for tests of the command line, with or without a process, in real folders. */

const createdFolders: string[] = [];
const started: ChildProcess[] = [];

/** Kills the processes and removes the folders of the tests. */
export async function cleanUp(): Promise<void> {
  for (const child of started.splice(0)) child.kill("SIGKILL");
  for (const folder of createdFolders.splice(0)) await rm(folder, { recursive: true, force: true });
}

export async function createTestFolder(files: Record<string, string> = {}): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "qm-cli-")));
  createdFolders.push(folder);
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  return folder;
}

const CONFIG = `
providers: { file: { read_only: false } }
policy:
  rules:
    - { name: no-deleting, rule: "'destructive' in tool.tags", effect: deny, reason: Nothing is deleted here. }
    - { name: ask-first, rule: "tool.name == 'file__edit'", effect: ask }
actors:
  default: { tools: ["*"] }
  reader: { tools: [file__read, file__list] }
  nobody: { tools: [] }
`;

/** A folder with a policy, three actors and `a.txt`. */
export function testWorkspace(): Promise<string> {
  return createTestFolder({ "quartermaster.yaml": CONFIG, "a.txt": "hello\n" });
}

export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs the program without a process. With `columns` its output is a terminal. */
export async function qm(
  cwd: string,
  argv: readonly string[],
  { columns, ...overrides }: Partial<Io> & { columns?: number } = {},
): Promise<CliResult> {
  const out: string[] = [];
  const err: string[] = [];
  const isTTY = columns !== undefined;
  async function* nothing(): AsyncGenerator<string> {}
  const code = await main(argv, {
    stdin: nothing(),
    stdout: { write: (text) => void out.push(text), isTTY, columns },
    stderr: { write: (text) => void err.push(text), isTTY, columns },
    cwd,
    env: {},
    signal: new AbortController().signal,
    nodeVersion: process.versions.node,
    platform: process.platform,
    execPath: process.execPath,
    importModule: (url) => import(url),
    ...overrides,
  });
  return { code, out: out.join(""), err: err.join("") };
}

/** Options for `qm()`: a terminal at which a person types this text. */
export function atTerminal(text: string): Pick<Io, "stdin"> & { columns: number } {
  async function* typed(): AsyncGenerator<string> {
    yield text;
  }
  return { stdin: Object.assign(typed(), { isTTY: true }), columns: 100 };
}

/** The command that starts the program as a process. */
export const qmCommand = [process.execPath, findCompiled("src/cli/bin.ts")] as const;

/** The environment without the variables for colours. */
export function plainEnvironment(): NodeJS.ProcessEnv {
  const { NO_COLOR: _no, FORCE_COLOR: _force, ...env } = process.env;
  return env;
}

export function start(
  cwd: string,
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
): { child: ChildProcess; ended: Promise<CliResult> } {
  const [node, ...options] = qmCommand;
  const child = spawn(node, [...options, ...argv], { cwd, env: { ...plainEnvironment(), ...env } });
  started.push(child);
  let out = "";
  let err = "";
  child.stdout.on("data", (part) => {
    out += part;
  });
  child.stderr.on("data", (part) => {
    err += part;
  });
  const ended = new Promise<CliResult>((resolve) =>
    child.on("close", (code) => resolve({ code: code ?? -1, out, err })),
  );
  return { child, ended };
}

/** A call that runs until it is cancelled: it reads gigabytes that take no space, one file with many hard links. */
export const longCall = ["invoke", "file__grep", '{"pattern":"(x+x+)+y","path":"many"}'];

/** A folder for `longCall`. */
export async function longCallFolder(): Promise<string> {
  const cwd = await createTestFolder();
  const first = join(cwd, "many/0.txt");
  await mkdir(join(cwd, "many"));
  await writeFile(first, "a line of some text that is not looked for\n".repeat(50_000));
  await Promise.all(Array.from({ length: 1500 }, (_, index) => link(first, join(cwd, `many/${index + 1}.txt`))));
  return cwd;
}

async function readTestLedger(cwd: string) {
  const { quartermaster, close } = await openWorkspace({ cwd, env: {}, purpose: "ledger" });
  return quartermaster.ledger.read({}).finally(close);
}

export async function eventTypes(cwd: string): Promise<readonly string[]> {
  return (await readTestLedger(cwd)).map(({ type }) => type);
}

/** The data of every `call.ended`. */
export async function endings(cwd: string): Promise<readonly unknown[]> {
  return (await readTestLedger(cwd)).filter(({ type }) => type === "call.ended").map(({ data }) => data);
}
