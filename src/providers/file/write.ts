import { createHash } from "node:crypto";
import type { Stats } from "node:fs";
import { access, constants, mkdir, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { QmError, toErrorDetails } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { replaceFileContent } from "./atomic-write.ts";
import type { FileRoot } from "./file-root.ts";
import { normalizeFilePath, type ResolvedPath, resolveFilePath } from "./file-root.ts";
import { explainFsError, getErrno } from "./fs-errors.ts";
import { type OpenFolder, openEntry, openFolder, pathNotFoundError, requireRegular, statEntry } from "./open-file.ts";
import { encodeText } from "./text-content.ts";

const input = z.strictObject({
  path: z.string().min(1).describe("File, relative to the root."),
  content: z.string().describe("The whole new content."),
  create_parents: z.boolean().default(true).describe("Create missing folders."),
  expected_sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional()
    .describe("Write only if the file still has this hash, as read answered it."),
});

export function writeAction(root: FileRoot): Action {
  return defineAction("file", {
    entry: "write",
    description:
      "Write a text file, new or in place of the old one. It replaces everything in it; to change part of a file, edit it instead.",
    effect: "write",
    tags: ["file", "write"],
    input,
    normalize: { path: (path) => normalizeFilePath(root, path) },
    examples: [{ args: { path: "notes/todo.md", content: "# To do\n\n- call Ada\n" } }],
    run: (args, { signal }) => write(root, args, signal),
  });
}

async function write(root: FileRoot, args: z.output<typeof input>, signal: AbortSignal) {
  const bytes = encodeText(args.content, "content");
  requireFits(bytes.length, root);
  const { real, missing } = await resolveFilePath(root, args.path);
  return root.runExclusive(join(real, ...missing), async () => {
    const place = await resolveFilePath(root, args.path);
    if (place.isRoot) throw new QmError("conflict", "the root is a folder, not a file");
    if (place.missing.length > 0)
      place.protectedPaths.requireReplaceable(join(place.real, ...place.missing), place.path);
    if (place.missing.length > 1 && !args.create_parents) throw await pathNotFoundError(place);

    const created = await withCreatedFolder(place, async (folder, name) => {
      const before = await statEntry(folder, name, place.path);
      if (before !== undefined) await requireWritable(folder, name, before, place.path);
      const { expected_sha256 } = args;
      if (expected_sha256 !== undefined) await requireHash(folder, name, before, expected_sha256, place.path);
      const onlyIfUnchanged = expected_sha256 !== undefined;
      await replaceFileContent(folder, name, { bytes, before, onlyIfUnchanged, shown: place.path }, signal);
      return before === undefined;
    });
    return { path: place.path, bytes: bytes.length, created, sha256: sha256(bytes) };
  });
}

export function requireFits(size: number, root: FileRoot): void {
  if (size > root.limits.maxWriteBytes) {
    throw new QmError("too_large", `${size} bytes are more than the ${root.limits.maxWriteBytes} a file may have here`);
  }
}

export function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** A rename would replace a read-only file without a question, so the question is asked here. */
export async function requireWritable(folder: OpenFolder, name: string, before: Stats, shown: string): Promise<void> {
  requireRegular(before, shown);
  await access(folder.at(name), constants.W_OK).catch((thrown: unknown) => {
    throw explainFsError(thrown, shown, "write");
  });
}

async function requireHash(
  folder: OpenFolder,
  name: string,
  before: Stats | undefined,
  expected: string,
  shown: string,
) {
  const actual = before === undefined ? undefined : await hashFile(folder, name, shown);
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

/** Runs `work` in the folder the file belongs in, made if need be. If `work` throws, folders made for it go again. */
async function withCreatedFolder<T>(
  place: ResolvedPath,
  work: (folder: OpenFolder, name: string) => Promise<T>,
): Promise<T> {
  const folders = place.missing.slice(0, -1);
  const name = place.missing.at(-1) ?? basename(place.real);
  let folder = await openFolder(
    place.missing.length === 0 ? dirname(place.real) : place.real,
    place.path,
    place.protectedPaths,
  );
  const held = [folder];
  const made: string[] = [];
  try {
    for (const part of folders) {
      if (await makeFolder(folder.at(part), place.path)) made.unshift(folder.at(part));
      folder = await openFolder(join(folder.real, part), place.path, place.protectedPaths);
      held.push(folder);
    }
    return await work(folder, name);
  } catch (thrown) {
    for (const path of made) await rmdir(path).catch(() => undefined);
    throw thrown;
  } finally {
    for (const opened of held) await opened.close();
  }
}

async function makeFolder(path: string, shown: string): Promise<boolean> {
  try {
    await mkdir(path);
    return true;
  } catch (thrown) {
    if (getErrno(thrown) === "EEXIST") return false;
    throw explainFsError(thrown, shown, "write");
  }
}
