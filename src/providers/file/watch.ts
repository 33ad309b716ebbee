import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import type { Action, CallContext } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { LruMap } from "../../core/lru-map.ts";
import { defineFileAction } from "./file-action.ts";
import { type FileRoot, resolveFilePath } from "./file-root.ts";
import { type FolderEntry, FolderWalker, skippedFolders } from "./folder-walker.ts";
import { compileGlob } from "./glob.ts";
import { statEntry, withFolder } from "./open-file.ts";

/** The files that match, with what changes when a file changes. */
interface FileSnapshot {
  /** The patterns, so that policies always see what a cursor is about. */
  readonly key: string;
  readonly files: ReadonlyMap<string, string>;
  /** Whether there were more entries than may be visited. */
  readonly isCut: boolean;
  readonly isIncomplete: boolean;
}

interface FileChange {
  readonly path: string;
  readonly change: "created" | "changed" | "removed";
}

const MAX_SNAPSHOTS = 16;
const SNAPSHOT_ENTRIES = 20_000;
const MAX_WAIT_MS = 60_000;
const POLL_MS = 250;
/** Larger folders are looked at less often: this many files add a millisecond to the pause. */
const FILES_PER_MS = 10;

const input = z.lazy(() =>
  z.strictObject({
    paths: z
      .array(z.string().min(1).max(1000))
      .min(1)
      .max(16)
      .default(["**"])
      .describe("Patterns relative to the root, such as src/**/*.ts."),
    since: z.string().max(64).optional().describe("The cursor of an earlier result, with the same paths."),
    wait_ms: z.int().min(0).max(MAX_WAIT_MS).default(0).describe("How long to wait for the first change."),
    limit: z.int().min(1).max(1000).default(200).describe("Maximum number of changes."),
  }),
);

export function watchAction(root: FileRoot): Action {
  const snapshots = new LruMap<string, FileSnapshot>(MAX_SNAPSHOTS);
  return defineFileAction(root, {
    entry: "watch",
    description:
      "Tell which files were created, changed or removed since an earlier call. The first call returns a cursor to pass as since. With wait_ms, it waits for a change. .git and node_modules are skipped unless a pattern names them.",
    effect: "read",
    input,
    // A little more than the longest wait.
    timeoutMs: MAX_WAIT_MS + 30_000,
    examples: [{ args: { paths: ["src/**/*.ts"] } }],
    run: (args, context) => watchFiles(root, snapshots, args, context),
  });
}

async function watchFiles(
  root: FileRoot,
  snapshots: Map<string, FileSnapshot>,
  { paths, since, wait_ms, limit }: z.output<typeof input>,
  { signal, dialogue }: CallContext,
) {
  const known = since === undefined ? undefined : snapshots.get(since);
  const key = JSON.stringify(paths);
  if (known !== undefined && known.key !== key) {
    throw new QmError("invalid_arguments", "the cursor belongs to other paths", {
      hint: "Pass the same paths as in the call that returned the cursor.",
    });
  }
  const before = known ?? (await takeSnapshot(root, paths, signal));
  let now = known === undefined ? before : await takeSnapshot(root, paths, signal);
  let found = await compareSnapshots(root, before, now, limit);
  const pause = POLL_MS + Math.ceil(now.files.size / FILES_PER_MS);
  // An unknown cursor is reported at once, because changes may have been missed.
  const isExpired = since !== undefined && known === undefined;
  for (let waited = 0; found.changes.length === 0 && waited < wait_ms && !isExpired; ) {
    const next = Math.min(pause, wait_ms - waited);
    await sleep(next, undefined, { signal });
    waited += next;
    dialogue?.progress({ progress: waited, total: wait_ms, message: "ms waiting for a change" });
    now = await takeSnapshot(root, paths, signal);
    found = await compareSnapshots(root, before, now, limit);
  }
  // While nothing changes, the cursor stays the same, so that waiting calls do not push out the cursors of others.
  const same = known?.isCut === false && found.changes.length === 0 ? since : undefined;
  const cursor = same ?? randomUUID();
  // Changes that were not reported stay for the next call.
  if (same === undefined) snapshots.set(cursor, found.truncated ? applyChanges(before, now, found.changes) : now);
  return {
    changes: found.changes,
    cursor,
    truncated: found.truncated,
    ...(isExpired ? { expired: true, note: "The cursor is no longer known, so earlier changes are not listed." } : {}),
    ...(now.isIncomplete ? { incomplete: true } : {}),
  };
}

async function takeSnapshot(root: FileRoot, paths: readonly string[], signal: AbortSignal): Promise<FileSnapshot> {
  const patterns = paths.map(compileGlob);
  const place = await resolveFilePath(root, ".");
  return withFolder(place, async (folder) => {
    const enter = ({ name, path }: FolderEntry) =>
      patterns.some((each) => (!skippedFolders.has(name) || each.names(name)) && each.mayEnter(path));
    const maxVisited = Math.min(root.limits.maxVisited, SNAPSHOT_ENTRIES);
    const walk = new FolderWalker(folder, { signal, maxVisited, enter });
    const files = new Map<string, string>();
    for await (const { kind, path, name, folder: at } of walk.entries()) {
      if ((kind !== "file" && kind !== "link") || !patterns.some((each) => each.matches(path))) continue;
      // A file that was removed in the meantime is not there.
      const stats = await statEntry(at, name, path).catch(() => undefined);
      if (stats !== undefined) files.set(path, `${stats.size}:${stats.mtimeMs}:${stats.ino}`);
    }
    return { key: JSON.stringify(paths), files, isCut: walk.isCut, isIncomplete: walk.isIncomplete };
  });
}

async function compareSnapshots(root: FileRoot, before: FileSnapshot, now: FileSnapshot, limit: number) {
  const changes: FileChange[] = [];
  for (const [path, state] of now.files) {
    const old = before.files.get(path);
    if (old === undefined && !before.isCut) changes.push({ path, change: "created" });
    if (old !== undefined && old !== state) changes.push({ path, change: "changed" });
    if (changes.length > limit) break;
  }
  for (const path of before.files.keys()) {
    if (changes.length > limit) break;
    if (now.files.has(path)) continue;
    if (now.isIncomplete && !(await isMissing(root, path))) continue;
    changes.push({ path, change: "removed" });
  }
  return { changes: changes.slice(0, limit), truncated: changes.length > limit };
}

/** Whether a file is gone, and not only in a part that could not be visited. */
const isMissing = (root: FileRoot, path: string): Promise<boolean> =>
  resolveFilePath(root, path).then(
    ({ missing }) => missing.length > 0,
    () => false,
  );

function applyChanges(before: FileSnapshot, now: FileSnapshot, changes: readonly FileChange[]): FileSnapshot {
  const files = new Map(before.files);
  for (const { path } of changes) {
    const state = now.files.get(path);
    if (state === undefined) files.delete(path);
    else files.set(path, state);
  }
  return { ...now, files, isCut: before.isCut };
}
