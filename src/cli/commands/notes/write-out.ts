import { open, rename, rm } from "node:fs/promises";
import { resolve } from "node:path";
import { messageOf, QmError } from "../../../core/errors.ts";
import { systemRuntime } from "../../../system-runtime.ts";
import type { Context } from "../../context.ts";
import { plain } from "../../text.ts";

export interface Target {
  readonly file: string;
  readonly force?: boolean | undefined;
}

/** Writes what comes to a file, all of it or nothing: a file that is there stays as it is until then. */
export async function writeOut(
  { io: { cwd } }: Context,
  { file, force = false }: Target,
  parts: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
): Promise<void> {
  const path = resolve(cwd, file);
  const written = force ? `${path}.${systemRuntime.newId()}` : path;
  const handle = await open(written, "wx").catch((thrown: unknown) => {
    throw cannotWrite(file, thrown);
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
    throw isSystemError(thrown) ? cannotWrite(file, thrown) : thrown;
  }
}

function isSystemError(thrown: unknown): thrown is NodeJS.ErrnoException {
  return thrown instanceof Error && "syscall" in thrown;
}

function cannotWrite(file: string, thrown: unknown): QmError {
  const isThere = isSystemError(thrown) && thrown.code === "EEXIST";
  return new QmError(
    "invalid_arguments",
    isThere ? `${plain(file)} is there already` : `${plain(file)} cannot be written: ${messageOf(thrown)}`,
    { cause: thrown, ...(isThere ? { hint: "Give another name, or --force to replace it." } : {}) },
  );
}
