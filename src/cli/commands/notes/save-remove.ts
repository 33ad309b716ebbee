import { formatCount, toOneLine } from "../../../core/display-text.ts";
import { yieldToEventLoop } from "../../../core/async.ts";
import { QmError } from "../../../core/errors.ts";
import type { NoteVisibility } from "../../../infospace/note.ts";
import type { NoteEntry } from "../../../infospace/note-list.ts";
import type { Notes } from "../../../infospace/notes.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import type { CommandContext } from "../../context.ts";
import { confirmAtTerminal, InterruptedError, showCount } from "../../terminal.ts";
import { showNoteTable } from "./list.ts";
import { formatNoteReach, formatTypeAndSize, toOwnerQuery } from "./note-text.ts";

export interface NotesSaveFlags {
  readonly name?: string;
  readonly reach?: NoteVisibility;
}

export async function runNotesSave(
  { out }: CommandContext,
  { quartermaster: { notes } }: Workspace,
  handle: string,
  { name, reach }: NotesSaveFlags,
): Promise<void> {
  const how = { ...(name === undefined ? {} : { name }), ...(reach === undefined ? {} : { reach }) };
  const saved = await notes.save(handle, how);
  if (out.isJson) return out.json(saved);
  const called = saved.name === undefined ? "" : ` ${JSON.stringify(saved.name)}`;
  out.line(
    toOneLine(
      `${saved.handle}${called} (${formatTypeAndSize(saved)}) is kept for good, for ${formatNoteReach(saved)}.`,
    ),
  );
}

export interface NotesRemoveFlags {
  readonly expired?: boolean;
  readonly all?: boolean;
  readonly yes?: boolean;
}

/** As many as somebody looks at before they agree. */
const SHOWN = 10;
const PAGE = 1_000;

export async function runNotesRemove(
  context: CommandContext,
  { quartermaster: { notes } }: Workspace,
  handles: readonly string[],
  { expired = false, all = false, yes = false }: NotesRemoveFlags,
): Promise<void> {
  const { io, out } = context;
  requireOneSelection(handles, expired, all);
  if (expired) return printRemoved(context, await notes.expire());
  const found = all
    ? await listEverything(context, notes)
    : await Promise.all([...new Set(handles)].map((each) => notes.get(each)));
  if (found.length === 0) return printRemoved(context, { notes: 0, collections: 0 });
  if (!yes && isConfirmationNeeded(found)) {
    if (!out.isJson) showNoteTable(context, found.slice(0, SHOWN));
    const more = found.length > SHOWN ? `, of which the first ${SHOWN} are shown` : "";
    const question = `Remove ${formatAmount(found)}${more}, for good?`;
    if (!(await confirmAtTerminal(io, question))) throw createNotRemovedError(found);
  }
  const progress = showCount(io.stderr, "removed");
  let [gone, collections] = [0, 0];
  try {
    for (const [done, { handle }] of found.entries()) {
      await yieldToEventLoop();
      if (io.signal.aborted) throw new InterruptedError();
      // What was made for a collection is gone with it.
      const removed = await notes.remove(handle).catch((thrown: unknown) => {
        if (thrown instanceof QmError && thrown.code === "not_found") return { notes: 0, collections: 0 };
        throw thrown;
      });
      gone += removed.notes;
      collections += removed.collections;
      if (found.length > SHOWN) progress.at({ done: done + 1, total: found.length });
    }
  } finally {
    progress.end();
  }
  printRemoved(context, { notes: gone, collections });
}

function createNotRemovedError(found: readonly NoteEntry[]): QmError {
  return new QmError("tool_denied", `nothing was removed: nobody agreed to remove ${formatAmount(found)}`, {
    hint: "Answer y at a terminal, or give --yes where there is none.",
  });
}

function requireOneSelection(handles: readonly string[], expired: boolean, all: boolean): void {
  const ways = [handles.length > 0, expired, all].filter(Boolean).length;
  if (ways === 1) return;
  throw new QmError(
    "invalid_arguments",
    ways === 0 ? "nothing was named that is to be removed" : "handles, --expired and --all contradict each other",
    { hint: "Give handles, --expired, or --all with --session, --actor, --tenant or --user." },
  );
}

/** One note that would expire anyhow is removed at a word. */
function isConfirmationNeeded(found: readonly NoteEntry[]): boolean {
  const [first] = found;
  return found.length > 1 || first?.kind === "collection" || first?.expiresAt === undefined;
}

async function listEverything(context: CommandContext, notes: Notes): Promise<readonly NoteEntry[]> {
  const found: NoteEntry[] = [];
  for (let before: string | undefined; ; ) {
    const page = await notes.list({ ...toOwnerQuery(context), before, limit: PAGE });
    found.push(...page.items);
    before = page.next;
    if (before === undefined) return found;
    await yieldToEventLoop();
  }
}

function formatAmount(found: readonly NoteEntry[]): string {
  const notes = found.filter(({ kind }) => kind === "note").length;
  const saved = found.filter(({ expiresAt }) => expiresAt === undefined).length;
  const parts = [
    ...(notes > 0 ? [formatCount(notes, "note")] : []),
    ...(notes < found.length ? [`${formatCount(found.length - notes, "collection")} with what was made for them`] : []),
  ];
  return `${parts.join(" and ")}${saved === 0 ? "" : ` (${saved} saved)`}`;
}

function printRemoved(
  { out }: CommandContext,
  removed: { readonly notes: number; readonly collections: number },
): void {
  const { notes, collections } = removed;
  if (out.isJson) out.json({ removed });
  else if (notes + collections === 0) out.line("There was nothing to remove.");
  else out.line(`${formatCount(notes, "note")} and ${formatCount(collections, "collection")} removed.`);
}
