import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import { yieldToEventLoop } from "../../../core/async.ts";
import { escapeUnsafe, formatCount } from "../../../core/display-text.ts";
import type { ResourceKind } from "../../../infospace/note.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { type Context, type Io, toCallerOptions, toOwnerFilter } from "../../context.ts";
import { createFileReadError, writeOutputFile } from "../../output-file.ts";
import { readChunks, showProgress } from "../../terminal.ts";
import { formatNoteOrigin, withInterrupt } from "./note-text.ts";

type FileFlags = Readonly<{ output?: string; force?: boolean }>;
type ExportFlags = FileFlags & Readonly<{ history?: boolean; kind?: ResourceKind; saved?: boolean }>;

export async function runNotesExport(context: Context, workspace: Workspace, handles: string[], flags: ExportFlags) {
  const { io, out, globals } = context;
  const { output, force, history, kind, saved } = flags;
  const query = { ...toOwnerFilter(globals), kind, saved, history, signal: io.signal };
  const exported = workspace.quartermaster.notes.export({ ...query, ...(handles.length === 0 ? {} : { handles }) });
  const stopProgress = showProgress(io.stderr, "The export");
  let last = "";
  async function* readLines(): AsyncGenerator<string> {
    let count = 0;
    for await (const line of exported) {
      last = line;
      yield line;
      // Lets Ctrl-C and the progress line through.
      if (++count % 100 === 0) await yieldToEventLoop();
    }
  }
  async function print(): Promise<void> {
    for await (const line of readLines()) {
      // Equal JSON, with unsafe characters as escapes.
      if (io.stdout.isTTY) out.json(JSON.parse(line));
      else io.stdout.write(line);
    }
  }
  await withInterrupt(context, () =>
    output === undefined ? print() : writeOutputFile(io.cwd, { file: output, force }, readLines()),
  ).finally(stopProgress);

  const { notes, collections } = JSON.parse(last) as { readonly notes: number; readonly collections: number };
  const amount = `${formatCount(notes, "note")} and ${formatCount(collections, "collection")}`;
  if (output === undefined) out.note(`Exported ${amount}.`);
  else out.answer({ file: output, notes, collections }, `Exported ${amount} to ${escapeUnsafe(output)}.`);
  if (notes + collections === 0) out.note("`qm notes list` shows the existing notes and who may use them.");
}

const HANDLES_SHOWN = 5;

export async function runNotesImport(context: Context, { quartermaster }: Workspace, file: string) {
  const { io, out, globals } = context;
  const { notes } = quartermaster;
  const caller = toCallerOptions(globals);
  // Throws for an unknown actor: no caller could ever reach its notes.
  quartermaster.categories(caller);
  const chunks = file === "-" ? readChunks(io) : readFileChunks(io, file);
  const stopProgress = showProgress(io.stderr, "The import");
  const importing = withInterrupt(context, () => notes.import(chunks, { signal: io.signal }, caller));
  const imported = await importing.finally(stopProgress);
  if (out.isJson) return out.json(imported);
  const { versions, renewed, handles } = imported;
  const amount = `${formatCount(imported.notes, "note")} and ${formatCount(imported.collections, "collection")}`;
  const earlier = versions === 0 ? "" : `, with ${formatCount(versions, "earlier version")}`;
  const [first] = handles;
  const owner = first === undefined ? "" : `, for ${formatNoteOrigin((await notes.get(first)).origin)}`;
  out.line(`Imported ${amount}${earlier}${owner}.`);
  if (renewed > 0) out.note(`${renewed} of them had expired; they now expire like new notes.`);
  if (first === undefined) return;
  const more = handles.length > HANDLES_SHOWN ? ", …" : "";
  out.line(out.dim(`New handles: ${handles.slice(0, HANDLES_SHOWN).join(", ")}${more}. \`qm notes list\` shows all.`));
}

async function* readFileChunks({ cwd }: Io, file: string): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of createReadStream(resolve(cwd, file))) yield chunk as Uint8Array;
  } catch (thrown) {
    throw createFileReadError(file, thrown);
  }
}
