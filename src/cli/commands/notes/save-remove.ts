import { yieldToEventLoop } from "../../../core/async.ts";
import { formatCount, toOneLine } from "../../../core/display-text.ts";
import { omitUndefined } from "../../../core/json.ts";
import type { NoteVisibility } from "../../../infospace/note.ts";
import type { NoteEntry } from "../../../infospace/note-list.ts";
import type { Notes } from "../../../infospace/notes.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { requireYes } from "../../approver.ts";
import { type Context, isNotFound, toOwnerFilter } from "../../context.ts";
import { createUsageError } from "../../exit-codes.ts";
import { InterruptedError, showCount } from "../../terminal.ts";
import { showNoteTable } from "./list.ts";
import { formatNoteReach, formatTypeAndSize } from "./note-text.ts";

type SaveFlags = { readonly name?: string; readonly reach?: NoteVisibility };

export async function runNotesSave({ out }: Context, workspace: Workspace, handle: string, { name, reach }: SaveFlags) {
  const saved = await workspace.quartermaster.notes.save(handle, omitUndefined({ name, reach }));
  const named = saved.name === undefined ? "" : ` ${JSON.stringify(saved.name)}`;
  const what = `${saved.handle}${named} (${formatTypeAndSize(saved)})`;
  out.answer(saved, toOneLine(`Saved ${what} for ${formatNoteReach(saved)}.`));
}

type RemoveFlags = { readonly expired?: boolean; readonly all?: boolean; readonly yes?: boolean };
const SHOWN = 10;

export async function runNotesRemove(
  context: Context,
  { quartermaster: { notes } }: Workspace,
  handles: readonly string[],
  { expired = false, all = false, yes = false }: RemoveFlags,
) {
  const { io, out } = context;
  const selections = [handles.length > 0, expired, all].filter(Boolean).length;
  const hint = "Give handles, --expired, or --all with --session, --actor, --tenant or --user.";
  if (selections === 0) throw createUsageError("nothing was selected for removal", hint);
  if (selections > 1) throw createUsageError("handles, --expired and --all contradict each other", hint);
  if (!all && Object.keys(toOwnerFilter(context.globals)).length > 0)
    throw createUsageError("--session, --actor, --tenant and --user select nothing without --all", hint);
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

async function listEverything({ globals }: Context, notes: Notes): Promise<readonly NoteEntry[]> {
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
  const full = `${formatCount(collections, "collection")} with ${collections === 1 ? "its" : "their"} notes`;
  const parts = [...(notes > 0 ? [formatCount(notes, "note")] : []), ...(collections > 0 ? [full] : [])];
  return `${parts.join(" and ")}${saved === 0 ? "" : ` (${saved} saved)`}`;
}

function printRemoved({ out }: Context, removed: { readonly notes: number; readonly collections: number }) {
  const { notes, collections } = removed;
  const amount = `${formatCount(notes, "note")} and ${formatCount(collections, "collection")}`;
  out.answer({ removed }, notes + collections === 0 ? "There was nothing to remove." : `Removed ${amount}.`);
}
