import { yieldToEventLoop } from "../../../core/async.ts";
import type { ResourceKind } from "../../../infospace/handle.ts";
import type { Workspace } from "../../../workspace.ts";
import type { Context } from "../../context.ts";
import { showProgress } from "../../progress.ts";
import { counted, plain } from "../../text.ts";
import { interruptible, whoseOf } from "./words.ts";
import { writeOut } from "./write-out.ts";

export interface ExportFlags {
  readonly output?: string;
  readonly force?: boolean;
  readonly history?: boolean;
  readonly kind?: ResourceKind;
  readonly saved?: boolean;
}

/** So often whatever else there is gets its turn: Ctrl-C, and how long it takes. */
const LINES_A_BREATH = 100;

export async function exportNotes(
  context: Context,
  { quartermaster: { notes } }: Workspace,
  handles: readonly string[],
  { output, force, history, kind, saved }: ExportFlags,
): Promise<void> {
  const { io, out } = context;
  const query = { ...whoseOf(context), kind, saved, history, signal: io.signal };
  const lines = inBreaths(notes.export({ ...query, ...(handles.length === 0 ? {} : { handles }) }));
  const end = showProgress(io.stderr, "The export");
  let last = "";
  async function* counting(): AsyncGenerator<string> {
    for await (const line of lines) {
      last = line;
      yield line;
    }
  }
  async function print(): Promise<void> {
    for await (const line of counting()) {
      // The same JSON, with what a terminal would act on as escapes.
      if (io.stdout.isTTY) out.json(JSON.parse(line));
      else io.stdout.write(line);
    }
  }
  await interruptible(context, () =>
    output === undefined ? print() : writeOut(context, { file: output, force }, counting()),
  ).finally(end);
  say(context, output, last);
}

function say({ out }: Context, output: string | undefined, last: string): void {
  const { notes, collections } = JSON.parse(last) as { readonly notes: number; readonly collections: number };
  const amount = `${counted(notes, "note")} and ${counted(collections, "collection")}`;
  if (output === undefined) out.note(`${amount}.`);
  else if (out.isJson) out.json({ file: output, notes, collections });
  else out.line(`${amount} in ${plain(output)}.`);
  if (notes + collections === 0) out.note("`qm notes list` shows what is kept, and for whom.");
}

async function* inBreaths(lines: AsyncIterable<string>): AsyncGenerator<string> {
  let count = 0;
  for await (const line of lines) {
    yield line;
    if (++count % LINES_A_BREATH === 0) await yieldToEventLoop();
  }
}
