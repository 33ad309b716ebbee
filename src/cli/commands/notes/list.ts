import { systemRuntime } from "../../../app/system-runtime.ts";
import { formatCount, quoteShellWord, toOneLine } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import type { ResourceKind } from "../../../infospace/note.ts";
import type { NoteEntry } from "../../../infospace/note-list.ts";
import type { NoteSearchType } from "../../../infospace/search/note-search.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { type CommandContext, toCallerOptions, toOwnerFilter } from "../../context.ts";
import { showProgress } from "../../terminal.ts";
import { formatTimeSpan } from "../../terminal-text.ts";
import { formatNoteReach, formatNotesUsage, formatTypeAndSize, withInterrupt } from "./note-text.ts";

export interface NotesListFlags {
  readonly kind?: ResourceKind;
  readonly name?: string;
  readonly action?: string;
  readonly saved?: boolean;
  readonly unsaved?: boolean;
  readonly parts?: boolean;
  readonly before?: string;
  readonly limit: number;
}

export async function runNotesList(
  context: CommandContext,
  { quartermaster: { notes } }: Workspace,
  { saved = false, unsaved = false, limit, ...flags }: NotesListFlags,
): Promise<void> {
  const { out, io, globals } = context;
  if (saved && unsaved)
    throw new QmError("invalid_arguments", "--saved and --unsaved contradict each other", {
      hint: "Give one of them, or none for both.",
    });
  const filters = { ...toOwnerFilter(globals), ...flags, ...(saved || unsaved ? { saved } : {}) };
  const page = await notes.list({ ...filters, limit }).finally(showProgress(io.stderr, "Looking"));
  const usage = await notes.usage();
  if (out.isJson) return out.json({ ...page, usage });
  if (page.items.length === 0) {
    const isFiltered = Object.keys(filters).length > 0;
    out.line(isFiltered ? "No note matches." : "There are no notes.");
    return out.line(
      out.dim(
        isFiltered
          ? "Leave out an option; `qm notes list` shows everything."
          : "A result too long for a model is stored as a note or a collection; `qm invoke infospace__create-note` creates one.",
      ),
    );
  }
  showNoteTable(context, page.items);
  for (const each of usage) out.line(out.dim(formatNotesUsage(each)));
  if (page.next !== undefined)
    out.line(out.dim(`There are more: --before ${quoteShellWord(page.next)} shows the next ${limit}.`));
}

export function showNoteTable({ out }: CommandContext, items: readonly NoteEntry[]): void {
  const now = systemRuntime.now().getTime();
  out.table(
    ["HANDLE", "NAME", "TYPE", "CREATED BY", "AGE", "EXPIRES IN", "FOR"],
    items.map((each) => [
      each.handle,
      each.name ?? "",
      formatTypeAndSize(each),
      each.origin.action,
      formatTimeSpan(now - Date.parse(each.origin.at)),
      each.expiresAt === undefined
        ? { text: "saved", paint: out.good }
        : formatTimeSpan(Date.parse(each.expiresAt) - now),
      formatNoteReach(each),
    ]),
  );
}

export interface NotesSearchFlags {
  readonly within?: string;
  readonly kind?: ResourceKind;
  readonly type?: NoteSearchType;
  readonly limit: number;
}

export async function runNotesSearch(
  context: CommandContext,
  { quartermaster: { notes } }: Workspace,
  query: string,
  { type = "keyword", ...flags }: NotesSearchFlags,
): Promise<void> {
  const { io, out, globals } = context;
  const options = toCallerOptions(globals);
  const caller = Object.keys(options).length === 0 ? undefined : options;
  const found = await withInterrupt(context, () =>
    notes.search(query, { ...flags, type, signal: io.signal }, caller),
  ).finally(showProgress(io.stderr, "The search"));
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
