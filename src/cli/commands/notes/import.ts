import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import { messageOf, QmError } from "../../../core/errors.ts";
import type { Workspace } from "../../../workspace.ts";
import { type Context, callerOf } from "../../context.ts";
import type { Io } from "../../io.ts";
import { showProgress } from "../../progress.ts";
import { counted, plain } from "../../text.ts";
import { interruptible, originText } from "./words.ts";

/** As many new handles as somebody looks at. */
const SHOWN = 5;

export async function importNotes(context: Context, { quartermaster }: Workspace, file: string): Promise<void> {
  const { io, out, globals } = context;
  const { notes } = quartermaster;
  const caller = callerOf(globals);
  // What came in for an actor that is not configured, nobody would ever reach.
  quartermaster.categories(caller);
  const chunks = file === "-" ? untilInterrupted(io) : chunksOf(io, file);
  const end = showProgress(io.stderr, "The import");
  const imported = await interruptible(context, () => notes.import(chunks, { signal: io.signal }, caller)).finally(end);
  if (out.isJson) return out.json(imported);
  const { versions, renewed, handles } = imported;
  const earlier = versions === 0 ? "" : `, with ${counted(versions, "earlier version")}`;
  const [first] = handles;
  const of = first === undefined ? "" : `, of ${originText((await notes.get(first)).origin)}`;
  out.line(`${counted(imported.notes, "note")} and ${counted(imported.collections, "collection")}${earlier}${of}.`);
  if (renewed > 0) out.note(`${renewed} of them would have expired by now; they are kept as long as what is new.`);
  if (first === undefined) return;
  const more = handles.length > SHOWN ? ", …" : "";
  out.line(out.dim(`Their handles: ${handles.slice(0, SHOWN).join(", ")}${more}. \`qm notes list\` shows them all.`));
}

async function* chunksOf({ cwd }: Io, file: string): AsyncGenerator<Uint8Array> {
  const stream = createReadStream(resolve(cwd, file));
  try {
    for await (const chunk of stream) yield chunk as Uint8Array;
  } catch (thrown) {
    throw new QmError("invalid_arguments", `${plain(file)} cannot be read: ${messageOf(thrown)}`, { cause: thrown });
  }
}

/** Whoever waits for input that does not come can still be interrupted. */
async function* untilInterrupted({ stdin, signal }: Io): AsyncGenerator<Uint8Array | string> {
  const interrupted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  interrupted.catch(() => {});
  // Not `for await`: leaving such a loop would wait for the input to be closed.
  const chunks = stdin[Symbol.asyncIterator]();
  for (;;) {
    const next = await Promise.race([chunks.next(), interrupted]);
    if (next.done) return;
    yield next.value;
  }
}
