import { chmod, chown, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createTestFolder } from "../../src/cli/testing.ts";
import { createBubblewrapSandbox } from "../../src/sandbox/bubblewrap-sandbox.ts";

const host = {
  nodePath: process.execPath,
  searchPath: process.env.PATH ?? "",
  platform: process.platform,
  pid: process.pid,
  uid: process.getuid?.(),
};
const passed = { read: async () => undefined, write: async () => {} };
const parts = { host, version: "1", passed, protect: () => [] };

/** Why the tests of the sandbox cannot run on this machine. A sandbox that fails its self-test is a failure, not a reason. */
export async function findMissingSandbox(about: string): Promise<string | undefined> {
  const problem = await createBubblewrapSandbox(parts).findProblem();
  const isMissing = problem?.includes("not installed") === true || process.platform !== "linux";
  if (isMissing) console.warn(`SKIPPED, NOT TESTED: ${about}: ${problem}`);
  return isMissing ? problem : undefined;
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
