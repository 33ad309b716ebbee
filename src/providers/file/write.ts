import { createHash } from "node:crypto";
import type { Stats } from "node:fs";
import { access, constants, mkdir, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import type { Action } from "../../core/action.ts";
import { QmError, toErrorDetails } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { replaceFileContent } from "./atomic-write.ts";
import { defineFileAction } from "./file-action.ts";
import { type FileRoot, type ResolvedPath, resolveFilePath } from "./file-root.ts";
import { explainFsError, explainFsErrors, getErrno } from "./fs-errors.ts";
import { type OpenFolder, openEntry, openFolder, pathNotFoundError, requireRegular, statEntry } from "./open-file.ts";
import { encodeText } from "./text-content.ts";

const input = z.lazy(() =>
  z.strictObject({
    path: z.string().min(1).describe("File, relative to the root."),
    content: z.string().describe("The whole new content."),
    create_parents: z.boolean().default(true).describe("Create missing folders."),
    expected_sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional()
      .describe("Write only if the file still has this hash, as returned by read."),
  }),
);

export const writeAction = (root: FileRoot): Action =>
  defineFileAction(root, {
    entry: "write",
    description: "Create a text file, or replace the whole content of one. To change part of a file, use edit.",
    effect: "write",
    input,
    examples: [{ args: { path: "notes/todo.md", content: "# To do\n\n- call Ada\n" } }],
    run: (args, { signal }) => write(root, args, signal),
  });

async function write(root: FileRoot, args: z.output<typeof input>, signal: AbortSignal) {
  const bytes = encodeText(args.content, "content");
  requireFits(bytes.length, root);
  const { real, missing } = await resolveFilePath(root, args.path);
  return root.runExclusive(join(real, ...missing), async () => {
    const place = await resolveFilePath(root, args.path);
    if (place.isRoot) throw new QmError("conflict", "the root is a folder, not a file");
    const target = join(place.real, ...place.missing);
    if (place.missing.length > 0) place.protectedPaths.requireReplaceable(target, place.path);
    if (place.missing.length > 1 && !args.create_parents) throw await pathNotFoundError(place);

    const created = await withCreatedFolder(place, async (folder, name) => {
      const before = await statEntry(folder, name, place.path);
      if (before !== undefined) await requireWritable(folder, name, before, place.path);
      const expected = args.expected_sha256;
      if (expected !== undefined) {
        requireHash(before && (await hashFile(folder, name, place.path)), expected, place.path);
      }
      const onlyIfUnchanged = expected !== undefined;
      await replaceFileContent(folder, name, { bytes, before, onlyIfUnchanged, shown: place.path }, signal);
      return before === undefined;
    });
    return { path: place.path, bytes: bytes.length, created, sha256: sha256(bytes) };
  });
}

export function requireFits(size: number, root: FileRoot): void {
  const limit = root.limits.maxWriteBytes;
  if (size > limit) throw new QmError("too_large", `${size} bytes are more than the limit of ${limit} bytes per file`);
}

export const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

/** A rename would replace a read-only file without an error, so this checks first. */
export async function requireWritable(folder: OpenFolder, name: string, before: Stats, shown: string): Promise<void> {
  requireRegular(before, shown);
  await explainFsErrors(shown, "write", () => access(folder.at(name), constants.W_OK));
}

function requireHash(actual: string | undefined, expected: string, shown: string): void {
  if (actual === expected) return;
  const what = actual === undefined ? "does not exist" : "has changed since it was read";
  throw new QmError("conflict", `${quoteName(shown)} ${what}; nothing was written`, {
    details: toErrorDetails({ sha256: actual }),
    hint: "Read it again before writing.",
  });
}

async function hashFile(folder: OpenFolder, name: string, shown: string): Promise<string> {
  const { handle } = await openEntry(folder, name, shown);
  const hash = createHash("sha256");
  for await (const chunk of handle.createReadStream()) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

/** Runs `work` in the folder of the file. Creates missing folders, and removes them again if `work` throws. */
async function withCreatedFolder<T>(place: ResolvedPath, work: (folder: OpenFolder, name: string) => Promise<T>) {
  const { real, missing, path: shown, protectedPaths } = place;
  let folder = await openFolder(missing.length === 0 ? dirname(real) : real, shown, protectedPaths);
  const opened = [folder];
  const created: string[] = [];
  try {
    for (const part of missing.slice(0, -1)) {
      if (await createFolder(folder.at(part), shown)) created.unshift(folder.at(part));
      folder = await openFolder(join(folder.real, part), shown, protectedPaths);
      opened.push(folder);
    }
    return await work(folder, missing.at(-1) ?? basename(real));
  } catch (thrown) {
    for (const path of created) await rmdir(path).catch(() => undefined);
    throw thrown;
  } finally {
    for (const each of opened) await each.close();
  }
}

/** Returns false if the folder exists. */
async function createFolder(path: string, shown: string): Promise<boolean> {
  try {
    await mkdir(path);
    return true;
  } catch (thrown) {
    if (getErrno(thrown) === "EEXIST") return false;
    throw explainFsError(thrown, shown, "write");
  }
}
