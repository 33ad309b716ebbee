import { formatCount, quoteShellWord, toOneLine } from "../../../core/display-text.ts";
import { systemRuntime } from "../../../app/system-runtime.ts";
import { QmError } from "../../../core/errors.ts";
import type { ResourceKind } from "../../../infospace/note.ts";
import type { NoteEntry } from "../../../infospace/note-list.ts";
import type { NoteSearchType } from "../../../infospace/search/note-search.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { type CommandContext, toCallerOptions } from "../../context.ts";
import { showProgress } from "../../terminal.ts";
import { formatTimeSpan } from "../approvals/approval-text.ts";
import { formatNoteReach, formatNotesUsage, formatTypeAndSize, toOwnerQuery, withInterrupt } from "./note-text.ts";

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
  const who = toCallerOptions(globals);
  const caller = Object.keys(who).length === 0 ? undefined : who;
  const end = showProgress(io.stderr, "The search");
  const options = { ...flags, type, signal: io.signal };
  const found = await withInterrupt(context, () => notes.search(query, options, caller)).finally(end);
  if (out.isJson) return out.json(found);
  const { hits, limitReached, searched, left, unmatched, note } = found;
  if (note !== undefined) out.note(toOneLine(note));
  if (left > 0) out.note(`${left} more were not looked at: together they are more than an index holds.`);
  if (hits.length === 0) {
    const what = flags.kind === "collection" ? "collection" : "note";
    out.line(`Nothing fits, of ${formatCount(searched, what)}.`);
    const words = unmatched.map(toOneLine).join(", ");
    if (searched === 0) out.line(out.dim("`qm notes list` shows what is kept, and for whom."));
    else if (words !== "") out.line(out.dim(`Nothing has: ${words}.`));
    return;
  }
  out.table(
    ["HANDLE", "SCORE", "NAME", "WHAT", "PASSAGE"],
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
  { quartermaster }: Workspace,
  flags: NotesListFlags,
): Promise<void> {
  const { out, io } = context;
  const { saved, unsaved, ...query } = flags;
  if (saved === true && unsaved === true)
    throw new QmError("invalid_arguments", "--saved and --unsaved contradict each other", {
      hint: "Give one of them, or none for both.",
    });
  const isSaved = saved === true ? true : unsaved === true ? false : undefined;
  const asked = { ...toOwnerQuery(context), ...query, saved: isSaved };
  const end = showProgress(io.stderr, "Looking");
  const page = await quartermaster.notes.list(asked).finally(end);
  const usage = await quartermaster.notes.usage();
  if (out.isJson) return out.json({ ...page, usage });
  if (page.items.length === 0) return printNoNotes(context, asked);
  showNoteTable(context, page.items);
  for (const each of usage) out.line(out.dim(formatNotesUsage(each)));
  if (page.next !== undefined)
    out.line(out.dim(`There are more: --before ${quoteShellWord(page.next)} shows the next ${flags.limit}.`));
}

export function showNoteTable({ out }: CommandContext, items: readonly NoteEntry[]): void {
  const now = systemRuntime.now().getTime();
  out.table(
    ["HANDLE", "NAME", "WHAT", "MADE BY", "AGE", "EXPIRES IN", "FOR"],
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

function printNoNotes({ out }: CommandContext, { limit: _limit, ...query }: object & { readonly limit: number }): void {
  const isNarrowed = Object.values(query).some((value) => value !== undefined);
  out.line(isNarrowed ? "Nothing that is kept fits." : "Nothing is kept.");
  out.line(
    out.dim(
      isNarrowed
        ? "Leave out an option; `qm notes list` shows everything."
        : "A result that is too long for a model is kept as a note or a collection; `qm invoke infospace__create-note` makes one.",
    ),
  );
}
