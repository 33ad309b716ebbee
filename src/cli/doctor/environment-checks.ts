import { existsSync } from "node:fs";
import { access, constants, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { readPackageInfo } from "../../app/system-runtime.ts";
import { loadConfig } from "../../config/config-file.ts";
import { formatCount } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { CALL_VARIABLES, compileCondition } from "../../core/expression.ts";
import { resolveFileRoot } from "../../workspace/built-in-providers.ts";
import { resolveStorePath } from "../../workspace/state-paths.ts";
import { openWorkspace, type WorkspaceOptions } from "../../workspace/workspace.ts";

/** The result of one check of `qm doctor`. */
export type DoctorCheck = Readonly<{ about: string; status: "ok" | "warn" | "fail"; message: string; todo?: string }>;
type CreateCheck = (about: string, message: string, todo: string) => DoctorCheck;
export const ok = (about: string, message: string): DoctorCheck => ({ about, status: "ok", message });
export const warn: CreateCheck = (about, message, todo) => ({ about, status: "warn", message, todo });
export const fail: CreateCheck = (about, message, todo) => ({ about, status: "fail", message, todo });
type ConfigCheck = Readonly<{ check: DoctorCheck; paths?: Readonly<{ storePath: string; fileRoot: string }> }>;

/** Without `paths` the configuration is unusable, and nothing else can be checked. */
export async function checkConfig({ cwd, env, configPath }: WorkspaceOptions): Promise<ConfigCheck> {
  const compileExpression = (text: string) => compileCondition(text, CALL_VARIABLES);
  try {
    const loaded = await loadConfig(configPath, { cwd, env, compileExpression });
    return {
      check: ok("config", loaded.path ?? "no file, using the defaults; `qm init` writes a quartermaster.yaml"),
      paths: { storePath: resolveStorePath(loaded, env), fileRoot: resolveFileRoot(loaded, env) },
    };
  } catch (thrown) {
    const todo = "Correct the file; node_modules/quartermaster/docs/config.md has every key.";
    return { check: fail("config", getErrorMessage(thrown), todo) };
  }
}

const BROKEN_HINT =
  "The store was changed. `qm events verify` shows every broken event; restore the store from a backup.";

export async function checkLedger(options: WorkspaceOptions): Promise<DoctorCheck> {
  try {
    const workspace = await openWorkspace({ ...options, purpose: "ledger" });
    const report = await workspace.quartermaster.ledger.verify().finally(() => workspace.close());
    const { sessions, events, broken } = report;
    const [first] = broken;
    if (first !== undefined) {
      const message = `${formatCount(broken.length, "break")}, first in session ${first.session}: ${first.message}`;
      return fail("ledger", message, BROKEN_HINT);
    }
    const amount = `${formatCount(events, "event")} in ${formatCount(sessions, "session")}, intact`;
    return ok("ledger", events === 0 ? "empty" : amount);
  } catch (thrown) {
    const hint = thrown instanceof QmError ? thrown.hint : undefined;
    return fail("ledger", getErrorMessage(thrown), hint ?? "Check the file at store.path.");
  }
}

export function checkNode(version: string): DoctorCheck {
  const required = readPackageInfo().engines.node.replace(/^\D*/, "");
  return compareVersions(version, required) >= 0
    ? ok("node", `${version} (at least ${required} is needed)`)
    : fail("node", `${version} is too old`, `Install Node ${required} or newer.`);
}

function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(".").map(Number));
  const differences = [0, 1, 2].map((part) => (left?.[part] ?? 0) - (right?.[part] ?? 0));
  return differences.find((difference) => difference !== 0) ?? 0;
}

/** Checks whether a store at `path` could be written, without creating one. */
export async function checkWritable(path: string): Promise<DoctorCheck> {
  const exists = existsSync(path);
  const folder = await findExistingFolder(dirname(path));
  try {
    if (exists) await access(path, constants.R_OK | constants.W_OK);
    await access(folder, constants.W_OK | constants.X_OK);
    return ok("store", exists ? path : `${path}, created by the first call`);
  } catch (thrown) {
    const message = `${exists ? path : folder} is not writable: ${getErrorMessage(thrown)}`;
    return fail("store", message, "Make it writable, or change store.path.");
  }
}

const MIN_FREE_BYTES = 100 * 1024 * 1024;

export async function checkDisk(path: string): Promise<readonly DoctorCheck[]> {
  try {
    const { bavail, bsize } = await statfs(await findExistingFolder(dirname(path)));
    const free = bavail * bsize;
    const size = free >= 2 ** 30 ? `${Math.floor(free / 2 ** 30)} GiB` : `${Math.floor(free / 2 ** 20)} MiB`;
    const message = `${size} free beside the store`;
    if (free >= MIN_FREE_BYTES) return [ok("disk", message)];
    return [warn("disk", message, "Free some space: a call that cannot be recorded fails.")];
  } catch {
    // Not every file system reports its free space.
    return [];
  }
}

async function findExistingFolder(path: string): Promise<string> {
  const stats = await stat(path).catch(() => undefined);
  return stats?.isDirectory() || dirname(path) === path ? path : findExistingFolder(dirname(path));
}
