import { systemRuntime } from "../../../app/system-runtime.ts";
import { formatCount, quoteShellWord, toOneLine } from "../../../core/display-text.ts";
import type { ResourceKind } from "../../../infospace/note.ts";
import type { NoteEntry } from "../../../infospace/note-list.ts";
import type { NoteSearchType } from "../../../infospace/search/note-search.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { type Context, toCallerOptions, toOwnerFilter } from "../../context.ts";
import { createUsageError } from "../../exit-codes.ts";
import { showProgress } from "../../terminal.ts";
import { formatTimeSpan } from "../../terminal-text.ts";
import { formatNoteReach, formatNotesUsage, formatTypeAndSize, withInterrupt } from "./note-text.ts";

type NotesListFlags = Readonly<{ saved?: boolean; unsaved?: boolean; limit: number }> & NotesFilter;
type NotesFilter = Readonly<{ kind?: ResourceKind; name?: string; action?: string; parts?: boolean; before?: string }>;

export async function runNotesList(context: Context, { quartermaster }: Workspace, options: NotesListFlags) {
  const { out, io, globals } = context;
  const { notes } = quartermaster;
  const { saved = false, unsaved = false, limit, ...flags } = options;
  if (saved && unsaved)
    throw createUsageError("--saved and --unsaved contradict each other", "Give one of them, or none for both.");
  const filters = { ...toOwnerFilter(globals), ...flags, ...(saved || unsaved ? { saved } : {}) };
  const page = await notes.list({ ...filters, limit }).finally(showProgress(io.stderr, "Looking"));
  const usage = await notes.usage();
  if (out.isJson) return out.json({ ...page, usage });
  if (page.items.length === 0) {
    const [answer, hint] =
      Object.keys(filters).length > 0
        ? ["No note matches.", "Leave out an option; `qm notes list` shows everything."]
        : ["There are no notes.", NO_NOTES_HINT];
    return out.line(answer, out.dim(hint));
  }
  showNoteTable(context, page.items);
  for (const each of usage) out.line(out.dim(formatNotesUsage(each)));
  if (page.next !== undefined)
    out.line(out.dim(`There are more: --before ${quoteShellWord(page.next)} shows the next ${limit}.`));
}

const NO_NOTES_HINT =
  "A result too long for a model is stored as a note or a collection; `qm invoke infospace__create-note` creates one.";

export function showNoteTable({ out }: Context, items: readonly NoteEntry[]): void {
  const now = systemRuntime.now().getTime();
  out.table(
    ["HANDLE", "NAME", "TYPE", "CREATED BY", "AGE", "EXPIRES IN", "FOR"],
    items.map((each) => [
      each.handle,
      each.name ?? "",
      formatTypeAndSize(each),
      each.origin.action,
      formatTimeSpan(now - Date.parse(each.origin.at)),
      each.expiresAt ? formatTimeSpan(Date.parse(each.expiresAt) - now) : { text: "saved", paint: out.good },
      formatNoteReach(each),
    ]),
    { whole: [0, 2, 3, 4, 5] },
  );
}

export type NotesSearchFlags = Readonly<{ within?: string; kind?: ResourceKind; type?: NoteSearchType; limit: number }>;

export async function runNotesSearch(context: Context, workspace: Workspace, query: string, flags: NotesSearchFlags) {
  const { io, out, globals } = context;
  const { notes } = workspace.quartermaster;
  const options = toCallerOptions(globals);
  const caller = Object.keys(options).length === 0 ? undefined : options;
  const request = { type: "keyword", ...flags, signal: io.signal } as const;
  const searching = withInterrupt(context, () => notes.search(query, request, caller));
  const found = await searching.finally(showProgress(io.stderr, "The search"));
  if (out.isJson) return out.json(found);
  const { hits, limitReached, searched, left, unmatched, note } = found;
  if (note !== undefined) out.note(toOneLine(note));
  if (left > 0) out.note(`${left} more were not searched: they do not fit into the index.`);
  if (hits.length === 0) {
    out.line(`No match in ${formatCount(searched, flags.kind === "collection" ? "collection" : "note")}.`);
    if (searched === 0) out.line(out.dim("`qm notes list` shows the existing notes and who may use them."));
    else if (unmatched.length > 0) out.line(out.dim(`No note has: ${unmatched.map(toOneLine).join(", ")}.`));
    return;
  }
  out.table(
    ["HANDLE", "SCORE", "NAME", "TYPE", "PASSAGE"],
    hits.map(({ resource, score, passage, position }) => [
      position === undefined ? resource.handle : `${resource.handle} [${position}]`,
      score.toFixed(2),
      resource.name ?? "",
      formatTypeAndSize(resource),
      passage ?? "",
    ]),
  );
  if (limitReached) out.line(out.dim(`There are more; --limit shows more than ${flags.limit}.`));
}
