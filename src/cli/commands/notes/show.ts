import { formatCount, toOneLine } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import { isRecord, type Json } from "../../../core/json.ts";
import type { NoteEntry } from "../../../infospace/note-list.ts";
import type { Notes } from "../../../infospace/notes.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import type { Context } from "../../context.ts";
import { writeOutputFile } from "../../output-file.ts";
import { showProgress } from "../../terminal.ts";
import { safeJson } from "../../terminal-text.ts";
import { formatByteCount, formatNoteReach, formatTypeAndSize, withInterrupt } from "./note-text.ts";

type ShowFlags = Readonly<{ path?: string; from?: number; to?: number; at?: number; history?: boolean }> & FileFlags;
type FileFlags = Readonly<{ output?: string; force?: boolean }>;
const ON_SCREEN = 20;

export async function runNotesShow(context: Context, workspace: Workspace, handle: string, flags: ShowFlags) {
  const { out, io } = context;
  const { notes } = workspace.quartermaster;
  if (flags.history === true) return showHistory(context, notes, handle);
  const resource = await findVersion(notes, handle, flags.at);
  if (!out.isJson) out.note(formatFacts(resource));
  const show = resource.kind === "collection" && flags.path === undefined ? showItems : showContent;
  const stopProgress = showProgress(io.stderr, `Reading ${handle}`);
  await withInterrupt(context, () => show(context, notes, resource, flags)).finally(stopProgress);
}

/** The note as it was in this version, as far as the history has it. */
async function findVersion(notes: Notes, handle: string, version?: number): Promise<NoteEntry> {
  const present = await notes.get(handle);
  if (version === undefined || version === present.version) return present;
  const found = (await notes.history(handle)).find((each) => each.version === version);
  const hint = `\`qm notes show ${handle} --history\` lists its versions.`;
  if (found === undefined)
    throw new QmError("not_found", `${handle} has no version ${version}`, { hint, details: { handle, version } });
  const { isPresent: _, ...facts } = found;
  return { ...present, ...facts } as NoteEntry;
}

function formatFacts(resource: NoteEntry): string {
  const { handle, name, version, origin, expiresAt } = resource;
  const parts = [
    `${handle}${name === undefined ? "" : ` ${JSON.stringify(name)}`}`,
    formatTypeAndSize(resource),
    `version ${version}`,
    `created by ${origin.action} at ${origin.at}`,
    `for ${formatNoteReach(resource)}`,
    expiresAt === undefined ? "saved" : `expires at ${expiresAt}`,
  ];
  return toOneLine(parts.join(" · "));
}

async function showContent({ out, io }: Context, notes: Notes, resource: NoteEntry, flags: ShowFlags) {
  const { path, from, to, at, output, force } = flags;
  const content = await notes.read(resource.handle, { path, from, to, version: at });
  const bytes = decodeFileBytes(content);
  if (output !== undefined) {
    const text = typeof content === "string" ? content : `${JSON.stringify(content)}\n`;
    return writeOutputFile(io.cwd, { file: output, force }, [bytes ?? text]);
  }
  if (out.isJson) return out.json({ ...resource, content });
  if (bytes === undefined || !io.stdout.isTTY) return out.result(content);
  const { base64: _, ...facts } = content as { readonly base64: string };
  out.result(facts);
  out.note("Its bytes are not shown; --output <file> writes them.");
}

function decodeFileBytes(content: Json): Uint8Array | undefined {
  const { base64, media_type } = isRecord(content) ? content : {};
  return typeof base64 === "string" && typeof media_type === "string" ? Buffer.from(base64, "base64") : undefined;
}

async function showItems({ out, io }: Context, notes: Notes, resource: NoteEntry, flags: ShowFlags) {
  const { from = 0, to, at, output, force } = flags;
  const isCut = to === undefined && output === undefined && !out.isJson && io.stdout.isTTY;
  const until = isCut ? from + ON_SCREEN : to;
  const items = notes.items(resource.handle, { from, to: until, version: at, signal: io.signal });
  if (output !== undefined) return writeOutputFile(io.cwd, { file: output, force }, toJsonLines(items));
  if (out.isJson) {
    const all: unknown[] = [];
    for await (const { position, id, content } of items) all.push({ position, handle: `note__${id}`, content });
    return out.json({ ...resource, items: all });
  }
  let count = 0;
  for await (const { content } of items) {
    out.line(safeJson(content));
    count++;
  }
  if (count === 0) out.note(from > 0 ? "There are no more notes in it." : "It is empty.");
  if (isCut && count === ON_SCREEN)
    out.note(`Give --from ${from + ON_SCREEN} for the next notes, --to for more at once.`);
}

async function* toJsonLines(items: AsyncIterable<{ readonly content: Json }>): AsyncGenerator<string> {
  for await (const { content } of items) yield `${JSON.stringify(content)}\n`;
}

async function showHistory({ out }: Context, notes: Notes, handle: string): Promise<void> {
  const versions = await notes.history(handle);
  if (versions.length === 0) throw new QmError("not_found", `${handle} does not exist any more`);
  if (out.isJson) return out.json({ handle, versions });
  out.table(
    ["VERSION", "WHEN", "TYPE", "HASH"],
    versions.map(({ version, changedAt, bytes, format, count, hash, isPresent }) => {
      const notes = count === undefined ? undefined : formatCount(count, "note");
      const size = bytes === undefined ? undefined : formatByteCount(bytes);
      return [
        `${version}${isPresent ? " (now)" : ""}`,
        changedAt ?? "",
        [format, notes, size].filter((part) => part !== undefined).join(", "),
        hash?.slice(0, 12) ?? "",
      ];
    }),
  );
  out.line(out.dim(`\`qm notes show ${handle} --at <version>\` shows one of them.`));
}
