import { yieldToEventLoop } from "../../../core/async.ts";
import { QmError } from "../../../core/errors.ts";
import type { Kept } from "../../../infospace/listing.ts";
import type { Notes } from "../../../infospace/notes.ts";
import type { Workspace } from "../../../workspace.ts";
import { confirmed, Interrupted } from "../../ask.ts";
import type { Context } from "../../context.ts";
import { showCount } from "../../progress.ts";
import { counted } from "../../text.ts";
import { showTable } from "./list.ts";
import { whoseOf } from "./words.ts";

export interface RemoveFlags {
  readonly expired?: boolean;
  readonly all?: boolean;
  readonly yes?: boolean;
}

/** As many as somebody looks at before they agree. */
const SHOWN = 10;
const PAGE = 1_000;

export async function removeNotes(
  context: Context,
  { quartermaster: { notes } }: Workspace,
  handles: readonly string[],
  { expired = false, all = false, yes = false }: RemoveFlags,
): Promise<void> {
  const { io, out } = context;
  requireOne(handles, expired, all);
  if (expired) return say(context, await notes.expire());
  const found = all
    ? await everything(context, notes)
    : await Promise.all([...new Set(handles)].map((each) => notes.get(each)));
  if (found.length === 0) return say(context, { notes: 0, collections: 0 });
  if (!yes && needsYes(found)) {
    if (!out.isJson) showTable(context, found.slice(0, SHOWN));
    const more = found.length > SHOWN ? `, of which the first ${SHOWN} are shown` : "";
    const question = `Remove ${amountOf(found)}${more}, for good?`;
    if (!(await confirmed(io, question))) throw notAgreed(found);
  }
  const progress = showCount(io.stderr, "removed");
  let [gone, collections] = [0, 0];
  try {
    for (const [done, { handle }] of found.entries()) {
      await yieldToEventLoop();
      if (io.signal.aborted) throw new Interrupted();
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
  say(context, { notes: gone, collections });
}

function notAgreed(found: readonly Kept[]): QmError {
  return new QmError("tool_denied", `nothing was removed: nobody agreed to remove ${amountOf(found)}`, {
    hint: "Answer y at a terminal, or give --yes where there is none.",
  });
}

function requireOne(handles: readonly string[], expired: boolean, all: boolean): void {
  const ways = [handles.length > 0, expired, all].filter(Boolean).length;
  if (ways === 1) return;
  throw new QmError(
    "invalid_arguments",
    ways === 0 ? "nothing was named that is to be removed" : "handles, --expired and --all contradict each other",
    { hint: "Give handles, --expired, or --all with --session, --actor, --tenant or --user." },
  );
}

/** One note that would expire anyhow is removed at a word. */
function needsYes(found: readonly Kept[]): boolean {
  const [first] = found;
  return found.length > 1 || first?.kind === "collection" || first?.expiresAt === undefined;
}

async function everything(context: Context, notes: Notes): Promise<readonly Kept[]> {
  const found: Kept[] = [];
  for (let before: string | undefined; ; ) {
    const page = await notes.list({ ...whoseOf(context), before, limit: PAGE });
    found.push(...page.items);
    before = page.next;
    if (before === undefined) return found;
    await yieldToEventLoop();
  }
}

function amountOf(found: readonly Kept[]): string {
  const notes = found.filter(({ kind }) => kind === "note").length;
  const saved = found.filter(({ expiresAt }) => expiresAt === undefined).length;
  const parts = [
    ...(notes > 0 ? [counted(notes, "note")] : []),
    ...(notes < found.length ? [`${counted(found.length - notes, "collection")} with what was made for them`] : []),
  ];
  return `${parts.join(" and ")}${saved === 0 ? "" : ` (${saved} saved)`}`;
}

function say({ out }: Context, removed: { readonly notes: number; readonly collections: number }): void {
  const { notes, collections } = removed;
  if (out.isJson) out.json({ removed });
  else if (notes + collections === 0) out.line("There was nothing to remove.");
  else out.line(`${counted(notes, "note")} and ${counted(collections, "collection")} removed.`);
}
