import { formatCount, toOneLine } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import { isRecord, type Json } from "../../../core/json.ts";
import type { NoteEntry } from "../../../infospace/note-list.ts";
import type { Notes } from "../../../infospace/notes.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import type { CommandContext } from "../../context.ts";
import { showProgress } from "../../terminal.ts";
import { safeJson } from "../../terminal-text.ts";
import { writeOutputFile } from "./export-import.ts";
import { formatByteCount, formatNoteReach, formatTypeAndSize, withInterrupt } from "./note-text.ts";

export interface NotesShowFlags {
  readonly path?: string;
  readonly from?: number;
  readonly to?: number;
  readonly at?: number;
  readonly history?: boolean;
  readonly output?: string;
  readonly force?: boolean;
}

/** As many notes of a collection as somebody reads on a screen. */
const ON_SCREEN = 20;

export async function runNotesShow(
  context: CommandContext,
  { quartermaster: { notes } }: Workspace,
  handle: string,
  flags: NotesShowFlags,
): Promise<void> {
  const { out, io } = context;
  if (flags.history === true) return showHistory(context, notes, handle);
  const resource = await findResourceVersion(notes, handle, flags.at);
  if (!out.isJson) out.note(formatFacts(resource));
  const end = showProgress(io.stderr, `Reading ${handle}`);
  try {
    await withInterrupt(context, () =>
      resource.kind === "collection" && flags.path === undefined
        ? showItems(context, notes, resource, flags)
        : showContent(context, notes, resource, flags),
    );
  } finally {
    end();
  }
}

/** As it was in that version, as far as that is known. */
async function findResourceVersion(notes: Notes, handle: string, version?: number): Promise<NoteEntry> {
  const present = await notes.get(handle);
  if (version === undefined || version === present.version) return present;
  const then = (await notes.history(handle)).find((each) => each.version === version);
  if (then === undefined)
    throw new QmError("not_found", `${handle} has no version ${version}`, {
      hint: `\`qm notes show ${handle} --history\` shows which it has.`,
      details: { handle, version },
    });
  const { isPresent: _, ...was } = then;
  return { ...present, ...was } as NoteEntry;
}

async function showContent(
  context: CommandContext,
  notes: Notes,
  resource: NoteEntry,
  flags: NotesShowFlags,
): Promise<void> {
  const { out, io } = context;
  const { path, from, to, at, output, force } = flags;
  const content = await notes.read(resource.handle, { path, from, to, version: at });
  if (output !== undefined) {
    const text = typeof content === "string" ? content : `${JSON.stringify(content)}\n`;
    await writeOutputFile(context, { file: output, force }, [decodeFileBytes(content) ?? text]);
  } else if (out.isJson) out.json({ ...resource, content });
  else if (decodeFileBytes(content) !== undefined && io.stdout.isTTY) {
    const { base64: _, ...facts } = content as { readonly base64: string };
    out.result(facts);
    out.note(`Its bytes are not shown; --output <file> writes them.`);
  } else out.result(content);
}

/** The bytes of a file, where it is one. */
function decodeFileBytes(content: Json): Uint8Array | undefined {
  if (!isRecord(content) || typeof content.base64 !== "string" || typeof content.media_type !== "string")
    return undefined;
  return Buffer.from(content.base64, "base64");
}

async function showItems(
  context: CommandContext,
  notes: Notes,
  resource: NoteEntry,
  flags: NotesShowFlags,
): Promise<void> {
  const { out, io } = context;
  const { from = 0, to, at, output, force } = flags;
  const isCut = to === undefined && output === undefined && !out.isJson && io.stdout.isTTY;
  const until = isCut ? from + ON_SCREEN : to;
  const items = notes.items(resource.handle, { from, to: until, version: at, signal: io.signal });
  if (output !== undefined) {
    await writeOutputFile(context, { file: output, force }, toJsonLines(items));
    return;
  }
  if (out.isJson) {
    const all: unknown[] = [];
    for await (const { position, id, content } of items) all.push({ position, handle: `note__${id}`, content });
    return out.json({ ...resource, items: all });
  }
  let shown = 0;
  for await (const { content } of items) {
    out.line(safeJson(content));
    shown++;
  }
  if (shown === 0) out.note(resource.kind === "collection" && from > 0 ? "It holds no more." : "It is empty.");
  if (isCut && shown === ON_SCREEN) out.note(`--from ${from + ON_SCREEN} shows the next, --to how many.`);
}

async function* toJsonLines(items: AsyncIterable<{ readonly content: Json }>): AsyncGenerator<string> {
  for await (const { content } of items) yield `${JSON.stringify(content)}\n`;
}

function formatFacts(resource: NoteEntry): string {
  const { handle, name, version, origin, expiresAt } = resource;
  const parts = [
    `${handle}${name === undefined ? "" : ` ${JSON.stringify(name)}`}`,
    formatTypeAndSize(resource),
    `version ${version}`,
    `made by ${origin.action} at ${origin.at}`,
    `for ${formatNoteReach(resource)}`,
    expiresAt === undefined ? "saved" : `expires at ${expiresAt}`,
  ];
  return toOneLine(parts.join(" · "));
}

async function showHistory({ out }: CommandContext, notes: Notes, handle: string): Promise<void> {
  const versions = await notes.history(handle);
  if (versions.length === 0) throw new QmError("not_found", `there is no ${handle} any more`);
  if (out.isJson) return out.json({ handle, versions });
  out.table(
    ["VERSION", "WHEN", "WHAT", "HASH"],
    versions.map(({ version, changedAt, bytes, format, count, hash, isPresent }) => [
      `${version}${isPresent ? " (now)" : ""}`,
      changedAt ?? "",
      [
        format,
        count === undefined ? undefined : formatCount(count, "note"),
        bytes === undefined ? undefined : formatByteCount(bytes),
      ]
        .filter((part) => part !== undefined)
        .join(", "),
      hash?.slice(0, 12) ?? "",
    ]),
  );
  out.line(out.dim(`\`qm notes show ${handle} --at <version>\` shows one of them.`));
}
