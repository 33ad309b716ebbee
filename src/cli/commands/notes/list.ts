import { QmError } from "../../../core/errors.ts";
import type { ResourceKind } from "../../../infospace/handle.ts";
import type { Kept } from "../../../infospace/listing.ts";
import { systemRuntime } from "../../../system-runtime.ts";
import type { Workspace } from "../../../workspace.ts";
import type { Context } from "../../context.ts";
import { showProgress } from "../../progress.ts";
import { shellQuoted } from "../../text.ts";
import { span } from "../approvals/words.ts";
import { reachText, usageText, whatText, whoseOf } from "./words.ts";

export interface ListFlags {
  readonly kind?: ResourceKind;
  readonly name?: string;
  readonly action?: string;
  readonly saved?: boolean;
  readonly unsaved?: boolean;
  readonly parts?: boolean;
  readonly before?: string;
  readonly limit: number;
}

export async function list(context: Context, { quartermaster }: Workspace, flags: ListFlags): Promise<void> {
  const { out, io } = context;
  const { saved, unsaved, ...query } = flags;
  if (saved === true && unsaved === true)
    throw new QmError("invalid_arguments", "--saved and --unsaved contradict each other", {
      hint: "Give one of them, or none for both.",
    });
  const isSaved = saved === true ? true : unsaved === true ? false : undefined;
  const asked = { ...whoseOf(context), ...query, saved: isSaved };
  const end = showProgress(io.stderr, "Looking");
  const page = await quartermaster.notes.list(asked).finally(end);
  const usage = await quartermaster.notes.usage();
  if (out.isJson) return out.json({ ...page, usage });
  if (page.items.length === 0) return sayNone(context, asked);
  showTable(context, page.items);
  for (const each of usage) out.line(out.dim(usageText(each)));
  if (page.next !== undefined)
    out.line(out.dim(`There are more: --before ${shellQuoted(page.next)} shows the next ${flags.limit}.`));
}

export function showTable({ out }: Context, items: readonly Kept[]): void {
  const now = systemRuntime.now().getTime();
  out.table(
    ["HANDLE", "NAME", "WHAT", "MADE BY", "AGE", "EXPIRES IN", "FOR"],
    items.map((each) => [
      each.handle,
      each.name ?? "",
      whatText(each),
      each.origin.action,
      span(now - Date.parse(each.origin.at)),
      each.expiresAt === undefined ? { text: "saved", paint: out.good } : span(Date.parse(each.expiresAt) - now),
      reachText(each),
    ]),
  );
}

function sayNone({ out }: Context, { limit: _limit, ...query }: object & { readonly limit: number }): void {
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
