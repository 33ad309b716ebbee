import { yieldToEventLoop } from "../../../core/async.ts";
import { formatCount, toOneLine } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import { omitUndefined } from "../../../core/json.ts";
import type { NoteVisibility } from "../../../infospace/note.ts";
import type { NoteEntry } from "../../../infospace/note-list.ts";
import type { Notes } from "../../../infospace/notes.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { requireYes } from "../../approver.ts";
import { type CommandContext, isNotFound, toOwnerFilter } from "../../context.ts";
import { InterruptedError, showCount } from "../../terminal.ts";
import { showNoteTable } from "./list.ts";
import { formatNoteReach, formatTypeAndSize } from "./note-text.ts";

export type NotesSaveFlags = { readonly name?: string; readonly reach?: NoteVisibility };

export async function runNotesSave(
  { out }: CommandContext,
  { quartermaster: { notes } }: Workspace,
  handle: string,
  { name, reach }: NotesSaveFlags,
): Promise<void> {
  const saved = await notes.save(handle, omitUndefined({ name, reach }));
  const named = saved.name === undefined ? "" : ` ${JSON.stringify(saved.name)}`;
  const what = `${saved.handle}${named} (${formatTypeAndSize(saved)})`;
  out.answer(saved, toOneLine(`Saved ${what} for ${formatNoteReach(saved)}.`));
}

export type NotesRemoveFlags = { readonly expired?: boolean; readonly all?: boolean; readonly yes?: boolean };

const SHOWN = 10;

export async function runNotesRemove(
  context: CommandContext,
  { quartermaster: { notes } }: Workspace,
  handles: readonly string[],
  { expired = false, all = false, yes = false }: NotesRemoveFlags,
): Promise<void> {
  const { io, out } = context;
  const selections = [handles.length > 0, expired, all].filter(Boolean).length;
  if (selections !== 1)
    throw new QmError(
      "invalid_arguments",
      selections === 0 ? "nothing was selected for removal" : "handles, --expired and --all contradict each other",
      { hint: "Give handles, --expired, or --all with --session, --actor, --tenant or --user." },
    );
  if (expired) return printRemoved(context, await notes.expire());
  const found = all
    ? await listEverything(context, notes)
    : await Promise.all([...new Set(handles)].map((each) => notes.get(each)));
  const [first] = found;
  if (first === undefined) return printRemoved(context, { notes: 0, collections: 0 });
  // A single note that would expire anyway is removed without a question.
  if (!yes && (found.length > 1 || first.kind === "collection" || first.expiresAt === undefined)) {
    if (!out.isJson) showNoteTable(context, found.slice(0, SHOWN));
    const amount = formatAmount(found);
    const more = found.length > SHOWN ? ` (the first ${SHOWN} are shown)` : "";
    await requireYes(context, { question: `Remove ${amount}${more}?`, done: "removed", what: `remove ${amount}`, yes });
  }
  const progress = showCount(io.stderr, "removed");
  const total = { notes: 0, collections: 0 };
  try {
    for (const [done, { handle }] of found.entries()) {
      await yieldToEventLoop();
      if (io.signal.aborted) throw new InterruptedError("interrupted; some of the notes are removed");
      // A note of a collection may have been removed with the collection.
      const removed = await notes.remove(handle).catch((thrown: unknown) => {
        if (isNotFound(thrown)) return { notes: 0, collections: 0 };
        throw thrown;
      });
      total.notes += removed.notes;
      total.collections += removed.collections;
      if (found.length > SHOWN) progress.at({ done: done + 1, total: found.length });
    }
  } finally {
    progress.end();
  }
  printRemoved(context, total);
}

async function listEverything({ globals }: CommandContext, notes: Notes): Promise<readonly NoteEntry[]> {
  const found: NoteEntry[] = [];
  for (let before: string | undefined; ; ) {
    const page = await notes.list({ ...toOwnerFilter(globals), before, limit: 1_000 });
    found.push(...page.items);
    before = page.next;
    if (before === undefined) return found;
    await yieldToEventLoop();
  }
}

function formatAmount(found: readonly NoteEntry[]): string {
  const notes = found.filter(({ kind }) => kind === "note").length;
  const saved = found.filter(({ expiresAt }) => expiresAt === undefined).length;
  const collections = found.length - notes;
  const parts = [
    ...(notes > 0 ? [formatCount(notes, "note")] : []),
    ...(collections > 0
      ? [`${formatCount(collections, "collection")} with ${collections === 1 ? "its" : "their"} notes`]
      : []),
  ];
  return `${parts.join(" and ")}${saved === 0 ? "" : ` (${saved} saved)`}`;
}

function printRemoved({ out }: CommandContext, removed: { readonly notes: number; readonly collections: number }) {
  const { notes, collections } = removed;
  const amount = `${formatCount(notes, "note")} and ${formatCount(collections, "collection")}`;
  out.answer({ removed }, notes + collections === 0 ? "There was nothing to remove." : `Removed ${amount}.`);
}
