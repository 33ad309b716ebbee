import { accessSync, constants } from "node:fs";
import { stat } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { QmError } from "../core/errors.ts";
import type { Sandbox, SandboxUser } from "../core/sandbox.ts";
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

interface SandboxParts {
  readonly host: SandboxHost;
  /** Files and folders that no program can reach, whatever is granted. Read for each program. */
  protect(): readonly string[];
}

/** A sandbox of Linux namespaces. It is tested once, when it is first needed, and used only if the test passes. */
export function createBubblewrapSandbox({ host, protect }: SandboxParts): Sandbox {
  let tested: Promise<string | undefined> | undefined;
  const programs = () => findPrograms(host);

  async function test(): Promise<string | undefined> {
    if (host.platform !== "linux") return "sandboxes need Linux";
    const found = programs();
    return typeof found === "string" ? found : runSelfTest(host, found);
  }

  async function chooseUser(folder: string | undefined): Promise<SandboxUser | undefined> {
    if (host.uid !== 0) return undefined;
    const owner = folder === undefined ? undefined : await stat(folder).catch(() => undefined);
    return owner === undefined || owner.uid === 0 ? NOBODY : { uid: owner.uid, gid: owner.gid };
  }

  const findProblem = () => (tested ??= test());
  return {
    findProblem,
    chooseUser,
    async prepare(request) {
      const problem = await findProblem();
      const found = programs();
      if (problem !== undefined || typeof found === "string") throw noSandboxError(problem ?? String(found));
      const user = await chooseUser(request.settings.write[0]);
      return buildBubblewrapCommand(request, found, protect(), user);
    },
  };
}

const noSandboxError = (problem: string): QmError =>
  new QmError("action_failed", `the program was not started: there is no sandbox: ${problem}`, {
    hint: "A person must install or repair it, or change the configuration.",
  });

/** The programs, or what to install. */
function findPrograms({ searchPath }: SandboxHost): BubblewrapPrograms | string {
  const find = (program: string) =>
    [...searchPath.split(delimiter).filter(Boolean), "/usr/bin", "/bin"]
      .map((folder) => join(folder, program))
      .find((file) => {
        try {
          accessSync(file, constants.X_OK);
          return true;
        } catch {
          return false;
        }
      });
  const bwrap = find("bwrap");
  if (bwrap === undefined) return "`bwrap` is not installed; install the package bubblewrap, version 0.8 or newer";
  const prlimit = find("prlimit");
  return prlimit === undefined ? "`prlimit` is not installed; install the package util-linux" : { bwrap, prlimit };
}
