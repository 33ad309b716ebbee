import { escapeUnsafe, formatCount } from "../../../core/display-text.ts";
import { createReadStream } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { resolve } from "node:path";
import { systemRuntime } from "../../../app/system-runtime.ts";
import { yieldToEventLoop } from "../../../core/async.ts";
import { getErrorMessage, QmError } from "../../../core/errors.ts";
import type { ResourceKind } from "../../../infospace/note.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import type { Io } from "../../context.ts";
import { type CommandContext, toCallerOptions } from "../../context.ts";
import { showProgress } from "../../terminal.ts";
import { formatNoteOrigin, toOwnerQuery, withInterrupt } from "./note-text.ts";

/** As many new handles as somebody looks at. */
const HANDLES_SHOWN = 5;

export async function runNotesImport(
  context: CommandContext,
  { quartermaster }: Workspace,
  file: string,
): Promise<void> {
  const { io, out, globals } = context;
  const { notes } = quartermaster;
  const caller = toCallerOptions(globals);
  // What came in for an actor that is not configured, nobody would ever reach.
  quartermaster.categories(caller);
  const chunks = file === "-" ? readStdinUntilAbort(io) : readFileChunks(io, file);
  const end = showProgress(io.stderr, "The import");
  const imported = await withInterrupt(context, () => notes.import(chunks, { signal: io.signal }, caller)).finally(end);
  if (out.isJson) return out.json(imported);
  const { versions, renewed, handles } = imported;
  const earlier = versions === 0 ? "" : `, with ${formatCount(versions, "earlier version")}`;
  const [first] = handles;
  const of = first === undefined ? "" : `, of ${formatNoteOrigin((await notes.get(first)).origin)}`;
  out.line(
    `${formatCount(imported.notes, "note")} and ${formatCount(imported.collections, "collection")}${earlier}${of}.`,
  );
  if (renewed > 0) out.note(`${renewed} of them would have expired by now; they are kept as long as what is new.`);
  if (first === undefined) return;
  const more = handles.length > HANDLES_SHOWN ? ", …" : "";
  out.line(
    out.dim(`Their handles: ${handles.slice(0, HANDLES_SHOWN).join(", ")}${more}. \`qm notes list\` shows them all.`),
  );
}

async function* readFileChunks({ cwd }: Io, file: string): AsyncGenerator<Uint8Array> {
  const stream = createReadStream(resolve(cwd, file));
  try {
    for await (const chunk of stream) yield chunk as Uint8Array;
  } catch (thrown) {
    throw new QmError("invalid_arguments", `${escapeUnsafe(file)} cannot be read: ${getErrorMessage(thrown)}`, {
      cause: thrown,
    });
  }
}

/** Whoever waits for input that does not come can still be interrupted. */
async function* readStdinUntilAbort({ stdin, signal }: Io): AsyncGenerator<Uint8Array | string> {
  const interrupted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  interrupted.catch(() => {});
  // Not `for await`: leaving such a loop would wait for the input to be closed.
  const chunks = stdin[Symbol.asyncIterator]();
  for (;;) {
    const next = await Promise.race([chunks.next(), interrupted]);
    if (next.done) return;
    yield next.value;
  }
}

interface OutputFile {
  readonly file: string;
  readonly force?: boolean | undefined;
}

/** Writes what comes to a file, all of it or nothing: a file that is there stays as it is until then. */
export async function writeOutputFile(
  { io: { cwd } }: CommandContext,
  { file, force = false }: OutputFile,
  parts: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
): Promise<void> {
  const path = resolve(cwd, file);
  const written = force ? `${path}.${systemRuntime.newId()}` : path;
  const handle = await open(written, "wx").catch((thrown: unknown) => {
    throw createWriteError(file, thrown);
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
    throw isSystemError(thrown) ? createWriteError(file, thrown) : thrown;
  }
}

function isSystemError(thrown: unknown): thrown is NodeJS.ErrnoException {
  return thrown instanceof Error && "syscall" in thrown;
}

function createWriteError(file: string, thrown: unknown): QmError {
  const isThere = isSystemError(thrown) && thrown.code === "EEXIST";
  return new QmError(
    "invalid_arguments",
    isThere
      ? `${escapeUnsafe(file)} is there already`
      : `${escapeUnsafe(file)} cannot be written: ${getErrorMessage(thrown)}`,
    { cause: thrown, ...(isThere ? { hint: "Give another name, or --force to replace it." } : {}) },
  );
}

export interface NotesExportFlags {
  readonly output?: string;
  readonly force?: boolean;
  readonly history?: boolean;
  readonly kind?: ResourceKind;
  readonly saved?: boolean;
}

/** So often whatever else there is gets its turn: Ctrl-C, and how long it takes. */
const LINES_PER_YIELD = 100;

export async function runNotesExport(
  context: CommandContext,
  { quartermaster: { notes } }: Workspace,
  handles: readonly string[],
  { output, force, history, kind, saved }: NotesExportFlags,
): Promise<void> {
  const { io, out } = context;
  const query = { ...toOwnerQuery(context), kind, saved, history, signal: io.signal };
  const lines = yieldBetweenLines(notes.export({ ...query, ...(handles.length === 0 ? {} : { handles }) }));
  const end = showProgress(io.stderr, "The export");
  let last = "";
  async function* trackLastLine(): AsyncGenerator<string> {
    for await (const line of lines) {
      last = line;
      yield line;
    }
  }
  async function print(): Promise<void> {
    for await (const line of trackLastLine()) {
      // The same JSON, with what a terminal would act on as escapes.
      if (io.stdout.isTTY) out.json(JSON.parse(line));
      else io.stdout.write(line);
    }
  }
  await withInterrupt(context, () =>
    output === undefined ? print() : writeOutputFile(context, { file: output, force }, trackLastLine()),
  ).finally(end);
  printExported(context, output, last);
}

function printExported({ out }: CommandContext, output: string | undefined, last: string): void {
  const { notes, collections } = JSON.parse(last) as { readonly notes: number; readonly collections: number };
  const amount = `${formatCount(notes, "note")} and ${formatCount(collections, "collection")}`;
  if (output === undefined) out.note(`${amount}.`);
  else if (out.isJson) out.json({ file: output, notes, collections });
  else out.line(`${amount} in ${escapeUnsafe(output)}.`);
  if (notes + collections === 0) out.note("`qm notes list` shows what is kept, and for whom.");
}

async function* yieldBetweenLines(lines: AsyncIterable<string>): AsyncGenerator<string> {
  let count = 0;
  for await (const line of lines) {
    yield line;
    if (++count % LINES_PER_YIELD === 0) await yieldToEventLoop();
  }
}
