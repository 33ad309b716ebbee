import { open, rename, rm } from "node:fs/promises";
import { resolve } from "node:path";
import { systemRuntime } from "../app/system-runtime.ts";
import { escapeUnsafe } from "../core/display-text.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";

/** Writes a file completely or not at all. With `force`, an existing file stays unchanged until the new one is complete. */
export async function writeOutputFile(
  cwd: string,
  { file, force = false }: { readonly file: string; readonly force?: boolean | undefined },
  parts: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
): Promise<void> {
  const path = resolve(cwd, file);
  const written = force ? `${path}.${systemRuntime.newId()}` : path;
  const handle = await open(written, "wx").catch((thrown: unknown) => {
    throw createFileWriteError(file, thrown);
  });
  try {
    try {
      for await (const part of parts) await handle.writeFile(part);
    } finally {
      await handle.close();
    }
    if (written !== path) await rename(written, path);
  } catch (thrown) {
    await rm(written, { force: true });
    throw thrown instanceof Error && "syscall" in thrown ? createFileWriteError(file, thrown) : thrown;
  }
}

const EXISTS_HINT = "Give another name, or --force to replace it.";

export function createFileWriteError(file: string, cause: unknown): QmError {
  if (cause instanceof Error && "code" in cause && cause.code === "EEXIST")
    return new QmError("invalid_arguments", `${escapeUnsafe(file)} already exists`, { cause, hint: EXISTS_HINT });
  const message = `${escapeUnsafe(file)} cannot be written: ${getErrorMessage(cause)}`;
  return new QmError("invalid_arguments", message, { cause });
}

export function createFileReadError(file: string, cause: unknown): QmError {
  return new QmError("invalid_arguments", `${escapeUnsafe(file)} cannot be read: ${getErrorMessage(cause)}`, { cause });
}
