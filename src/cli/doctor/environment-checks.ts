import { formatCount } from "../../core/display-text.ts";
import { access, constants, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { readPackageInfo } from "../../app/system-runtime.ts";
import { type LoadConfigOptions, loadConfig } from "../../config/config-file.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { CALL_VARIABLES, compileCondition } from "../../core/expression.ts";
import type { ChainReport } from "../../ledger/hash-chain.ts";
import { openWorkspace, resolveFileRoot, resolveStorePath, type WorkspaceOptions } from "../../workspace/workspace.ts";

/** One thing `qm doctor` looked at. */
export interface DoctorCheck {
  readonly about: string;
  readonly status: "ok" | "warn" | "fail";
  readonly message: string;
  /** What to do about it. */
  readonly todo?: string;
}

export function ok(about: string, message: string): DoctorCheck {
  return { about, status: "ok", message };
}

export function warn(about: string, message: string, todo: string): DoctorCheck {
  return { about, status: "warn", message, todo };
}

export function fail(about: string, message: string, todo: string): DoctorCheck {
  return { about, status: "fail", message, todo };
}

/** Where things are, according to a configuration that can be used. */
export interface DoctorPaths {
  readonly storePath: string;
  readonly fileRoot: string;
}

/** Without places, nothing else can be checked. */
export async function checkConfig({
  cwd,
  env,
  configPath,
}: WorkspaceOptions): Promise<{ check: DoctorCheck; places?: DoctorPaths }> {
  const options: LoadConfigOptions = { cwd, env, compileExpression: (text) => compileCondition(text, CALL_VARIABLES) };
  try {
    const loaded = await loadConfig(configPath, options);
    return {
      check: ok("config", loaded.path ?? "none, the defaults are in force; `qm init` writes a quartermaster.yaml"),
      places: { storePath: resolveStorePath(loaded, env), fileRoot: resolveFileRoot(loaded, env) },
    };
  } catch (thrown) {
    return {
      check: fail(
        "config",
        getErrorMessage(thrown),
        "Correct the file; node_modules/quartermaster/docs/config.md has every key.",
      ),
    };
  }
}

export async function checkLedger(options: WorkspaceOptions): Promise<DoctorCheck> {
  try {
    const workspace = await openWorkspace({ ...options, purpose: "ledger" });
    const report = await workspace.quartermaster.ledger.verify().finally(() => workspace.close());
    return toLedgerCheck(report);
  } catch (thrown) {
    const hint = thrown instanceof QmError ? thrown.hint : undefined;
    return fail("ledger", getErrorMessage(thrown), hint ?? "Look at the file at store.path.");
  }
}

function toLedgerCheck({ sessions, events, broken }: ChainReport): DoctorCheck {
  const [first] = broken;
  if (first === undefined)
    return ok(
      "ledger",
      events === 0 ? "empty" : `${formatCount(events, "event")} in ${formatCount(sessions, "session")}, whole`,
    );
  return fail(
    "ledger",
    `${formatCount(broken.length, "break")}, first in session ${first.session}: ${first.message}`,
    "Somebody changed the store. `qm events verify` shows every line; restore it from a backup.",
  );
}

export function checkNode(version: string): DoctorCheck {
  const least = readPackageInfo().engines.node.replace(/^\D*/, "");
  return compareVersions(version, least) >= 0
    ? ok("node", `${version} (at least ${least} is needed)`)
    : fail("node", `${version} is too old`, `Install Node ${least} or newer.`);
}

function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(".").map(Number));
  for (const part of [0, 1, 2]) {
    const difference = (left?.[part] ?? 0) - (right?.[part] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Whether a store at `path` can be written, without making one. */
export async function checkWritable(path: string): Promise<DoctorCheck> {
  const isThere = await stat(path).then(
    () => true,
    () => false,
  );
  const folder = await existingFolder(dirname(path));
  try {
    if (isThere) await access(path, constants.R_OK | constants.W_OK);
    await access(folder, constants.W_OK | constants.X_OK);
    return ok("store", isThere ? path : `${path}, which the first call makes`);
  } catch (thrown) {
    const what = isThere ? path : folder;
    return fail(
      "store",
      `${what} is not writable: ${getErrorMessage(thrown)}`,
      "Make it writable, or change store.path.",
    );
  }
}

const LITTLE_BYTES = 100 * 1024 * 1024;

export async function checkDisk(path: string): Promise<readonly DoctorCheck[]> {
  try {
    const { bavail, bsize } = await statfs(await existingFolder(dirname(path)));
    const free = bavail * bsize;
    const message = `${free >= 2 ** 30 ? `${Math.floor(free / 2 ** 30)} GiB` : `${Math.floor(free / 2 ** 20)} MiB`} free beside the store`;
    return [
      free < LITTLE_BYTES
        ? warn("disk", message, "Free some space: a call that cannot be recorded fails.")
        : ok("disk", message),
    ];
  } catch {
    // Not every file system can say, and it is nothing to worry about.
    return [];
  }
}

async function existingFolder(path: string): Promise<string> {
  try {
    return (await stat(path)).isDirectory() || dirname(path) === path ? path : existingFolder(dirname(path));
  } catch {
    return dirname(path) === path ? path : existingFolder(dirname(path));
  }
}
