import { getErrorMessage, QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { ExportLine, NoteLine, VersionLine } from "./export-format.ts";
import { exportHeaderShape, exportLineShape } from "./export-format.ts";
import type { ImportResult, ImportWriter } from "./import-writer.ts";
import { readJsonLines, type TextChunks } from "./json-text.ts";

/** Characters of the longest line: about the longest text that Node can hold. */
const LINE_LIMIT = 2 ** 28;

/**
 * Reads an export line by line and passes it to the writer. Throws `invalid_arguments` with the number of a wrong line. The
 * caller decides what to do with the lines that were written before it.
 */
export async function importLines(chunks: TextChunks, writer: ImportWriter, signal?: AbortSignal) {
  const { values, counts } = readJsonLines(chunks, { lineLimit: LINE_LIMIT });
  const reader = createExportReader(writer);
  const getLine = () => counts.values + counts.empty;
  try {
    for await (const value of values) {
      signal?.throwIfAborted();
      await reader.take(value, getLine());
    }
  } catch (thrown) {
    throw addLineNumber(thrown, getLine());
  }
  return reader.end(getLine());
}

function createExportReader(writer: ImportWriter) {
  let hasBegun = false;
  let hasEnded = false;
  /** Earlier versions of the next note. */
  let earlier: VersionLine[] = [];
  let collection: string | undefined;

  async function takeNote(line: NoteLine): Promise<void> {
    const stray = earlier.find(({ of }) => of !== line.id);
    if (stray !== undefined) throw strayVersionsError(stray);
    const before = earlier;
    earlier = [];
    if (line.part_of !== undefined) requireOpen(line.part_of);
    await writer.note(line, before);
  }

  function requireOpen(handle: string): void {
    if (handle !== collection) throw new Error(`it belongs to ${handle}, which is not the last collection before it`);
  }

  async function takeLine(line: ExportLine): Promise<void> {
    const [stray] = earlier;
    if (stray !== undefined && line.kind !== "version" && line.kind !== "note") throw strayVersionsError(stray);
    switch (line.kind) {
      case "note":
        return takeNote(line);
      case "version":
        earlier.push(line);
        return;
      case "collection":
        collection = line.id;
        return writer.collection(line);
      case "state":
        requireOpen(line.of);
        return writer.state(line.version);
      case "items":
        requireOpen(line.of);
        return writer.items(line.items);
      case "end": {
        const { notes, collections } = writer.counts();
        if (notes !== line.notes || collections !== line.collections) {
          const expected = `${line.notes} notes and ${line.collections} collections`;
          throw new Error(`${expected} were exported, and the file has ${notes} and ${collections}`);
        }
        hasEnded = true;
      }
    }
  }

  return {
    async take(value: Json, number: number): Promise<void> {
      if (!hasBegun) {
        if (!exportHeaderShape.safeParse(value).success) throw notAnExportError(number);
        hasBegun = true;
        return;
      }
      if (hasEnded) throw new Error("it comes after the end");
      const { data, error } = exportLineShape.safeParse(value);
      if (error !== undefined) throw new Error(formatFirstIssue(error.issues));
      await takeLine(data);
    },
    async end(number: number): Promise<ImportResult> {
      if (!hasBegun) throw notAnExportError(number);
      if (!hasEnded)
        throw new QmError("invalid_arguments", `the file ends early, after line ${number}: the last line is missing`, {
          hint: "Nothing was imported. The file may have been cut off: export again.",
          details: { line: number },
        });
      return writer.finish();
    },
  };
}

function strayVersionsError({ of }: VersionLine): Error {
  return new Error(`the earlier versions of ${of} are not followed by it`);
}

function formatFirstIssue([issue]: readonly { path: PropertyKey[]; message: string }[]): string {
  const at = issue?.path.length ? `${issue.path.join(".")}: ` : "";
  return `${at}${issue?.message ?? "it is not valid"}`;
}

const NOTHING_IMPORTED = "Nothing was imported. Fix the line, or export again.";

/** Adds the line number, except to errors that are not the line's fault. */
function addLineNumber(thrown: unknown, line: number): unknown {
  if (thrown instanceof Error && (thrown.name === "AbortError" || thrown.name === "TimeoutError")) return thrown;
  if (thrown instanceof QmError) {
    const { code, message, hintTemplate: hint, details } = thrown;
    if (code !== "invalid_output" && code !== "too_large") return thrown;
    return new QmError("invalid_arguments", message, { hint: hint ?? NOTHING_IMPORTED, details, cause: thrown });
  }
  const message = `line ${line}: ${getErrorMessage(thrown)}`;
  return new QmError("invalid_arguments", message, { hint: NOTHING_IMPORTED, details: { line }, cause: thrown });
}

function notAnExportError(line: number): QmError {
  return new QmError("invalid_arguments", "it is not an export of notes that this version understands", {
    hint: 'Nothing was imported. The first line of an export is {"quartermaster":"notes","version":1}.',
    details: { line },
  });
}
