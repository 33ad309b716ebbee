import type { ResourceKind } from "../../../infospace/handle.ts";
import type { NoteSearchType } from "../../../infospace/search/note-search.ts";
import type { Workspace } from "../../../workspace.ts";
import { type Context, callerOf } from "../../context.ts";
import { showProgress } from "../../progress.ts";
import { counted, oneLine } from "../../text.ts";
import { interruptible, whatText } from "./words.ts";

export interface SearchFlags {
  readonly within?: string;
  readonly kind?: ResourceKind;
  readonly type?: NoteSearchType;
  readonly limit: number;
}

export async function search(
  context: Context,
  { quartermaster: { notes } }: Workspace,
  query: string,
  { type = "keyword", ...flags }: SearchFlags,
): Promise<void> {
  const { io, out, globals } = context;
  const who = callerOf(globals);
  const caller = Object.keys(who).length === 0 ? undefined : who;
  const end = showProgress(io.stderr, "The search");
  const options = { ...flags, type, signal: io.signal };
  const found = await interruptible(context, () => notes.search(query, options, caller)).finally(end);
  if (out.isJson) return out.json(found);
  const { hits, limitReached, searched, left, unmatched, note } = found;
  if (note !== undefined) out.note(oneLine(note));
  if (left > 0) out.note(`${left} more were not looked at: together they are more than an index holds.`);
  if (hits.length === 0) {
    const what = flags.kind === "collection" ? "collection" : "note";
    out.line(`Nothing fits, of ${counted(searched, what)}.`);
    const words = unmatched.map(oneLine).join(", ");
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
      whatText(resource),
      passage ?? "",
    ]),
  );
  if (limitReached) out.line(out.dim(`There are more; --limit shows more than ${flags.limit}.`));
}
