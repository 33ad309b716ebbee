import { spawnSync } from "node:child_process";
import { chmod, chown, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createTestFolder } from "../../src/cli/testing.ts";

/** What every sandbox needs. Containers and some systems refuse it to bubblewrap, and older ones do not have it. */
const PROBE = "bwrap --unshare-user --unshare-pid --disable-userns --ro-bind / / --proc /proc -- true";

/**
 * Why the tests of the sandbox cannot run on this machine, with a loud line. A sandbox that can be made but fails its
 * self-test is a failure, not a reason.
 */
export function findMissingSandbox(about: string): string | undefined {
  const [program = "", ...args] = `${process.getuid?.() === 0 ? "unshare --mount " : ""}${PROBE}`.split(" ");
  const { status, stderr, error } = spawnSync(program, args, { encoding: "utf8" });
  if (status === 0) return undefined;
  const problem = error === undefined ? stderr.trim() : `bubblewrap is not installed (${error.message})`;
  console.warn(`SKIPPED, NOT TESTED: ${about}: ${problem}`);
  return problem;
}

/** A user that has no rights to the files of this one. Programs of root run as the owner of their folder. */
const OWNER = 12_345;

/** A folder with these files, which the user of sandboxed programs can reach and change. */
export async function createSandboxFolder(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await createTestFolder();
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  await openToPrograms(folder, 0o755);
  return folder;
}

/** Only the sandbox may refuse, so modes must not. */
export async function openToPrograms(path: string, mode = 0o777): Promise<void> {
  if (process.getuid?.() === 0) await chown(path, OWNER, OWNER);
  await chmod(path, mode);
}
