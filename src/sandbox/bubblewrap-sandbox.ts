import { hash } from "node:crypto";
import { accessSync, constants } from "node:fs";
import { stat } from "node:fs/promises";
import { release } from "node:os";
import { delimiter, isAbsolute, join } from "node:path";
import { QmError } from "../core/errors.ts";
import { canonicalJson } from "../core/json.ts";
import { type Sandbox, type SandboxUser, UNTESTED_SANDBOX } from "../core/sandbox.ts";
import { type BubblewrapPrograms, buildBubblewrapCommand, NOBODY } from "./bubblewrap.ts";
import { runSelfTest } from "./self-test.ts";

/** The parts of our own process that a sandbox needs. */
export interface SandboxHost {
  readonly nodePath: string;
  readonly searchPath: string;
  readonly platform: NodeJS.Platform;
  readonly pid: number;
  /** Undefined on Windows. */
  readonly uid: number | undefined;
}

/** Remembers passed self-tests for other processes, by the key of what was tested. */
export interface PassedTests {
  has(key: string): Promise<boolean>;
  add(key: string): Promise<void>;
  remove(key: string): Promise<void>;
}

interface SandboxParts {
  readonly host: SandboxHost;
  /** The version of Quartermaster. Another one may build other commands. */
  readonly version: string;
  readonly passed: PassedTests;
  /** Files and folders that no grant opens to a program. Read for each program. */
  protect(): readonly string[];
}

/** A sandbox of Linux namespaces. It is tested once, when a program first needs it, and used only if the test passes. */
export function createBubblewrapSandbox({ host, version, passed, protect }: SandboxParts): Sandbox {
  let tested: Promise<string | undefined> | undefined;
  let known: Promise<string | undefined> | undefined;
  let newest: string | undefined = UNTESTED_SANDBOX;

  async function test(): Promise<string | undefined> {
    const found = host.platform === "linux" ? findPrograms(host) : "sandboxes need Linux";
    const problem = typeof found === "string" ? found : await runSelfTest(host, found);
    newest = problem;
    // A failure may end without a trace, for example when a setting of the kernel changes. So only success is stored.
    const remember = problem === undefined ? passed.add : passed.remove;
    if (typeof found !== "string")
      await identify(found)
        .then(remember)
        .catch(() => undefined);
    return problem;
  }

  async function readPassedTest(): Promise<string | undefined> {
    const found = findPrograms(host);
    const hasPassed = typeof found !== "string" && (await passed.has(await identify(found)));
    if (!hasPassed) return findProblem();
    if (tested === undefined) newest = undefined;
    return newest;
  }

  /** Everything that could change the result of the test, apart from settings of the kernel. */
  async function identify(programs: BubblewrapPrograms): Promise<string> {
    const files = Object.values(programs);
    const stats = await Promise.all(files.map((file) => stat(file)));
    const sizes = stats.map(({ mtimeMs, size, ino }) => [mtimeMs, size, ino]);
    return hash("sha256", canonicalJson([version, release(), host.uid ?? null, files, sizes]), "hex");
  }

  async function chooseUser(folder: string | undefined): Promise<SandboxUser | undefined> {
    if (host.uid !== 0) return undefined;
    const owner = folder === undefined ? undefined : await stat(folder).catch(() => undefined);
    return owner === undefined || owner.uid === 0 ? NOBODY : { uid: owner.uid, gid: owner.gid };
  }

  const findProblem = () => (tested ??= test());
  return {
    findProblem,
    findKnownProblem() {
      known ??= readPassedTest();
      return tested ?? known;
    },
    getProblem: () => newest,
    chooseUser,
    async prepare(request) {
      const problem = await findProblem();
      const found = findPrograms(host);
      if (problem !== undefined || typeof found === "string") throw createNoSandboxError(problem ?? String(found));
      const user = await chooseUser(request.settings.write[0]);
      return buildBubblewrapCommand(request, found, protect(), user);
    },
  };
}

const createNoSandboxError = (problem: string): QmError =>
  new QmError("action_failed", `the program was not started: there is no sandbox: ${problem}`, {
    hint: "A person must install or repair it, or change the configuration.",
  });

/** The programs, or what to install. */
function findPrograms({ searchPath, nodePath }: SandboxHost): BubblewrapPrograms | string {
  const folders = [...searchPath.split(delimiter).filter(isAbsolute), "/usr/bin", "/bin"];
  const find = (program: string) => folders.map((folder) => join(folder, program)).find(isExecutable);
  const [bwrap, prlimit] = [find("bwrap"), find("prlimit")];
  if (bwrap === undefined) return "`bwrap` is not installed; install the package bubblewrap, version 0.8 or newer";
  if (prlimit === undefined) return "`prlimit` is not installed; install the package util-linux";
  return { bwrap, prlimit, node: nodePath };
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
