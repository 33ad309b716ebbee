import { messageOf, QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import {
  type CollectionLine,
  headerShape,
  type Line,
  lineShape,
  type NoteLine,
  type VersionLine,
} from "./export-lines.ts";
import type { Imported, ImportWriter } from "./import-writer.ts";
import { readJsonLines } from "./json-lines.ts";

/** A note's line may be as long as a text can be. */
const LINE_LIMIT = 2 ** 28;

/**
 * Reads an export line by line and has it written. Throws `invalid_arguments` with the number of the line that is wrong; what
 * to do about what was written by then is up to whoever asked.
 */
export async function importLines(
  chunks: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  writer: ImportWriter,
  signal?: AbortSignal,
): Promise<Imported> {
  const { values, counts } = readJsonLines(chunks, { lineLimit: LINE_LIMIT });
  const reader = createReader(writer);
  const line = () => counts.values + counts.empty;
  try {
    for await (const value of values) {
      signal?.throwIfAborted();
      await reader.take(value, line());
    }
  } catch (thrown) {
    throw atLine(thrown, line());
  }
  return reader.end(line());
}

function createReader(writer: ImportWriter) {
  let begun = false;
  let ended = false;
  /** What the note of the next line said before. */
  let earlier: VersionLine[] = [];
  let collection: string | undefined;

  async function takeNote(line: NoteLine): Promise<void> {
    const stray = earlier.find(({ of }) => of !== line.id);
    if (stray !== undefined) throw wrong(`${stray.of} has earlier versions, and does not come after them`);
    const before = earlier;
    earlier = [];
    if (line.part_of !== undefined) requireOpen(line.part_of);
    await writer.note(line, before);
  }

  async function takeCollection(line: CollectionLine): Promise<void> {
    collection = line.id;
    await writer.collection(line);
  }

  function requireOpen(handle: string): void {
    if (handle !== collection) throw wrong(`it is of ${handle}, which is not the collection that was begun last`);
  }

  async function takeLine(line: Line): Promise<void> {
    if (earlier.length > 0 && line.kind !== "version" && line.kind !== "note")
      throw wrong(`${earlier[0]?.of} has earlier versions, and does not come after them`);
    switch (line.kind) {
      case "note":
        return takeNote(line);
      case "version":
        earlier.push(line);
        return;
      case "collection":
        return takeCollection(line);
      case "state":
        requireOpen(line.of);
        return writer.state(line.version);
      case "items":
        requireOpen(line.of);
        return writer.items(line.items);
      case "end": {
        const { notes, collections } = writer.counts();
        if (notes !== line.notes || collections !== line.collections)
          throw wrong(
            `${line.notes} notes and ${line.collections} collections were written, and ${notes} and ${collections} came`,
          );
        ended = true;
      }
    }
  }

  return {
    async take(value: Json, number: number): Promise<void> {
      if (!begun) {
        if (!headerShape.safeParse(value).success) throw notAnExport(number);
        begun = true;
        return;
      }
      if (ended) throw wrong("something comes after the end");
      const { data, error } = lineShape.safeParse(value);
      if (error !== undefined) throw wrong(firstOf(error));
      await takeLine(data);
    },
    async end(number: number): Promise<Imported> {
      if (!begun) throw notAnExport(number);
      if (!ended)
        throw new QmError("invalid_arguments", `it ends early, after line ${number}: the last line is missing`, {
          hint: "Nothing was imported. Was it cut off? Export it again.",
          details: { line: number },
        });
      return writer.finish();
    },
  };
}

function firstOf({ issues }: { readonly issues: readonly { path: PropertyKey[]; message: string }[] }): string {
  const [issue] = issues;
  const at = issue?.path.length ? `${issue.path.join(".")}: ` : "";
  return `${at}${issue?.message ?? "it is not understood"}`;
}

/** What is wrong with a line, before its number is known. */
class WrongLine extends Error {}

function wrong(problem: string): WrongLine {
  return new WrongLine(problem);
}

const CUT_SHORT: ReadonlySet<string> = new Set(["AbortError", "TimeoutError"]);

/** Whatever a line leads to is told with its number, but for what is no fault of the line. */
function atLine(thrown: unknown, line: number): unknown {
  if (thrown instanceof Error && CUT_SHORT.has(thrown.name)) return thrown;
  if (thrown instanceof QmError) {
    const { code, message, hint, details } = thrown;
    if (code !== "invalid_output" && code !== "too_large") return thrown;
    return new QmError("invalid_arguments", message, { hint: hint ?? NOTHING, details, cause: thrown });
  }
  return new QmError("invalid_arguments", `line ${line}: ${messageOf(thrown)}`, {
    hint: NOTHING,
    details: { line },
    cause: thrown,
  });
}

const NOTHING = "Nothing was imported. Put the line right, or export again.";

function notAnExport(line: number): QmError {
  return new QmError("invalid_arguments", "it is not an export of notes that this version understands", {
    hint: 'Nothing was imported. The first line of one says {"quartermaster":"notes","version":1}.',
    details: { line },
  });
}
