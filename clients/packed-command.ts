import { mkdir, realpath } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { type ChildResult, runChild } from "./child.ts";

const ROOT = join(import.meta.dirname, "..");
const INSTALL_MS = 300_000;

/** Something that cannot be tried on this machine, which is no failure. */
export class NotTriedError extends Error {}

/** Installs packages from the registry, or from a file, into a folder of their own. Returns the folder of their commands. */
export async function installPackages(folder: string, packages: readonly string[]): Promise<string> {
  await mkdir(folder, { recursive: true });
  const args = ["install", "--prefix", folder, "--no-audit", "--no-fund", "--loglevel", "error", ...packages];
  const { code, out, err } = await runNpm(args);
  if (code === 0) return join(folder, "node_modules/.bin");
  const [problem, reason = ""] = (err || out).trim().split("\n");
  throw new NotTriedError(`npm install ended with ${code}: ${problem} ${reason}`);
}

/** Packs this package and installs it as a user does. Returns the folder of the command. */
export async function installPackedCommand(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const { code, out, err } = await runNpm(["pack", "--pack-destination", folder, "--loglevel", "error"]);
  const file = out.trim().split("\n").at(-1) ?? "";
  if (code !== 0) throw new Error(`npm pack ended with ${code}:\n${err || out}`);
  return installPackages(folder, [join(folder, file)]);
}

/** npm keeps the environment, because the registry is configured there. */
function runNpm(args: readonly string[]): Promise<ChildResult> {
  return runChild("npm", args, { cwd: ROOT, env: process.env, limitMs: INSTALL_MS });
}

/** A user with an empty home folder, and an environment without the keys and proxies of the person who runs this. */
export interface TestUser {
  readonly home: string;
  readonly work: string;
  readonly env: Readonly<Record<string, string>>;
}

export async function createTestUser(folder: string, binFolders: readonly string[]): Promise<TestUser> {
  const [home, work, temporary] = ["home", "work", "tmp"].map((name) => join(folder, name)) as [string, string, string];
  for (const each of [home, work, temporary]) await mkdir(each, { recursive: true });
  const PATH = [...binFolders, process.env.PATH ?? ""].join(delimiter);
  const env = { PATH, HOME: home, TMPDIR: temporary, TERM: "dumb", NO_COLOR: "1", LANG: "C.UTF-8" };
  return { home, work: await realpath(work), env };
}
