import { createHash } from "node:crypto";
import type { Stats } from "node:fs";
import { access, constants, mkdir, rmdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { facts, QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { replaceFile } from "./atomic.ts";
import { locate, normalPath, type Place } from "./confine.ts";
import { type Folder, openFolder } from "./folder.ts";
import { errnoOf, explained } from "./fs-errors.ts";
import { notFound } from "./nearby.ts";
import { openIn, requireRegular, statsIn } from "./open-file.ts";
import type { Root } from "./root.ts";
import { encoded } from "./text.ts";

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

export function writeAction(root: Root): Action {
  return defineAction("file", {
    entry: "write",
    description:
      "Write a text file, new or in place of the old one. It replaces everything in it; to change part of a file, edit it instead.",
    effect: "write",
    tags: ["file", "write"],
    input,
    normalize: { path: (path) => normalPath(root, path) },
    examples: [{ args: { path: "notes/todo.md", content: "# To do\n\n- call Ada\n" } }],
    run: (args, { signal }) => write(root, args, signal),
  });
}

async function write(root: Root, args: z.output<typeof input>, signal: AbortSignal) {
  const bytes = encoded(args.content, "content");
  requireFits(bytes.length, root);
  const { real, missing } = await locate(root, args.path);
  return root.inTurn(join(real, ...missing), async () => {
    const place = await locate(root, args.path);
    if (place.isRoot) throw new QmError("conflict", "the root is a folder, not a file");
    if (place.missing.length > 0) place.kept.requireReplaceable(join(place.real, ...place.missing), place.path);
    if (place.missing.length > 1 && !args.create_parents) throw await notFound(place);

    const created = await inMadeFolder(place, async (folder, name) => {
      const before = await statsIn(folder, name, place.path);
      if (before !== undefined) await requireWritable(folder, name, before, place.path);
      const { expected_sha256 } = args;
      if (expected_sha256 !== undefined) await requireHash(folder, name, before, expected_sha256, place.path);
      const onlyIfUnchanged = expected_sha256 !== undefined;
      await replaceFile(folder, name, { bytes, before, onlyIfUnchanged, shown: place.path }, signal);
      return before === undefined;
    });
    return { path: place.path, bytes: bytes.length, created, sha256: sha256(bytes) };
  });
}

export function requireFits(size: number, root: Root): void {
  if (size > root.limits.maxWriteBytes) {
    throw new QmError("too_large", `${size} bytes are more than the ${root.limits.maxWriteBytes} a file may have here`);
  }
}

export function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** A rename would replace a read-only file without a question, so the question is asked here. */
export async function requireWritable(folder: Folder, name: string, before: Stats, shown: string): Promise<void> {
  requireRegular(before, shown);
  await access(folder.at(name), constants.W_OK).catch((thrown: unknown) => {
    throw explained(thrown, shown, "write");
  });
}

async function requireHash(folder: Folder, name: string, before: Stats | undefined, expected: string, shown: string) {
  const actual = before === undefined ? undefined : await hashOf(folder, name, shown);
  if (actual === expected) return;
  const what = actual === undefined ? "does not exist" : "has changed since it was read";
  throw new QmError("conflict", `${quoted(shown)} ${what}; nothing was written`, {
    details: facts({ sha256: actual }),
    hint: "Read it again before writing.",
  });
}

async function hashOf(folder: Folder, name: string, shown: string): Promise<string> {
  const { handle } = await openIn(folder, name, shown);
  const hash = createHash("sha256");
  for await (const chunk of handle.createReadStream()) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

/** Runs `work` in the folder the file belongs in, made if need be. If `work` throws, folders made for it go again. */
async function inMadeFolder<T>(place: Place, work: (folder: Folder, name: string) => Promise<T>): Promise<T> {
  const folders = place.missing.slice(0, -1);
  const name = place.missing.at(-1) ?? basename(place.real);
  let folder = await openFolder(place.missing.length === 0 ? dirname(place.real) : place.real, place.path, place.kept);
  const held = [folder];
  const made: string[] = [];
  try {
    for (const part of folders) {
      if (await makeFolder(folder.at(part), place.path)) made.unshift(folder.at(part));
      folder = await openFolder(join(folder.real, part), place.path, place.kept);
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
    if (errnoOf(thrown) === "EEXIST") return false;
    throw explained(thrown, shown, "write");
  }
}
