import { getErrorMessage, QmError } from "../core/errors.ts";
import { getOwn, type Json, type JsonObject } from "../core/json.ts";
import {
  type CollectionLine,
  type ExportLine,
  exportHeaderShape,
  exportLineShape,
  type NoteLine,
  type VersionLine,
} from "./export.ts";
import type { ImportResult, ImportWriter } from "./import-writer.ts";
import type { StoredContent } from "./infospace-store.ts";
import { toFileContent, toJsonContent } from "./infospace-store.ts";
import { readJsonLines } from "./json-text.ts";
import { listSources } from "./note.ts";

/** Where an imported resource says what it was. */
const IMPORTED = "imported";

/** What it was is remembered, and not what it was when it was imported the last time. */
export function toImportedLabel({ id, name, properties, origin, changed_at }: NoteLine | CollectionLine) {
  const was: JsonObject = {
    ...(id === undefined ? {} : { id }),
    ...(changed_at === undefined ? {} : { changed_at }),
    ...(origin === undefined ? {} : { origin }),
  };
  const isNew = getOwn(properties, IMPORTED) === undefined && Object.keys(was).length > 0;
  return {
    ...(name === undefined ? {} : { name }),
    properties: isNew ? { ...properties, [IMPORTED]: was } : properties,
  };
}

/** The actions that a line says it came from. */
export function readLineSources({ origin }: NoteLine | CollectionLine): readonly string[] {
  const action = getOwn(origin ?? {}, "action");
  const sources = getOwn(origin ?? {}, "sources");
  return listSources({
    action: typeof action === "string" ? action : "",
    sources: Array.isArray(sources) ? sources.filter((each) => typeof each === "string") : [],
  });
}

/** What a line says, as it is kept. Throws where it is not what its hash says. */
export function readLineContent({ format, hash, content, media_type, base64 }: NoteLine | VersionLine): StoredContent {
  const said =
    base64 === undefined
      ? toJsonContent(requireContent(content))
      : toFileContent(decodeBase64(base64), media_type ?? "application/octet-stream");
  if (format !== undefined && said.format !== format) throw new Error(`its format is ${said.format}, not ${format}`);
  if (hash !== undefined && said.hash !== hash)
    throw new Error("its content is not what its hash says: it was changed");
  return said;
}

function requireContent(content: unknown): Json {
  if (content === undefined) throw new Error("it has neither content nor base64");
  return content as Json;
}

function decodeBase64(base64: string): Uint8Array {
  const bytes = Buffer.from(base64, "base64");
  if (bytes.toString("base64") !== base64) throw new Error("base64: it is not that");
  return bytes;
}

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
): Promise<ImportResult> {
  const { values, counts } = readJsonLines(chunks, { lineLimit: LINE_LIMIT });
  const reader = createExportReader(writer);
  const line = () => counts.values + counts.empty;
  try {
    for await (const value of values) {
      signal?.throwIfAborted();
      await reader.take(value, line());
    }
  } catch (thrown) {
    throw addLineNumber(thrown, line());
  }
  return reader.end(line());
}

function createExportReader(writer: ImportWriter) {
  let begun = false;
  let ended = false;
  /** What the note of the next line said before. */
  let earlier: VersionLine[] = [];
  let collection: string | undefined;

  async function takeNote(line: NoteLine): Promise<void> {
    const stray = earlier.find(({ of }) => of !== line.id);
    if (stray !== undefined) throw createLineError(`${stray.of} has earlier versions, and does not come after them`);
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
    if (handle !== collection)
      throw createLineError(`it is of ${handle}, which is not the collection that was begun last`);
  }

  async function takeLine(line: ExportLine): Promise<void> {
    if (earlier.length > 0 && line.kind !== "version" && line.kind !== "note")
      throw createLineError(`${earlier[0]?.of} has earlier versions, and does not come after them`);
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
          throw createLineError(
            `${line.notes} notes and ${line.collections} collections were written, and ${notes} and ${collections} came`,
          );
        ended = true;
      }
    }
  }

  return {
    async take(value: Json, number: number): Promise<void> {
      if (!begun) {
        if (!exportHeaderShape.safeParse(value).success) throw notAnExportError(number);
        begun = true;
        return;
      }
      if (ended) throw createLineError("something comes after the end");
      const { data, error } = exportLineShape.safeParse(value);
      if (error !== undefined) throw createLineError(formatFirstIssue(error));
      await takeLine(data);
    },
    async end(number: number): Promise<ImportResult> {
      if (!begun) throw notAnExportError(number);
      if (!ended)
        throw new QmError("invalid_arguments", `it ends early, after line ${number}: the last line is missing`, {
          hint: "Nothing was imported. Was it cut off? Export it again.",
          details: { line: number },
        });
      return writer.finish();
    },
  };
}

function formatFirstIssue({
  issues,
}: {
  readonly issues: readonly { path: PropertyKey[]; message: string }[];
}): string {
  const [issue] = issues;
  const at = issue?.path.length ? `${issue.path.join(".")}: ` : "";
  return `${at}${issue?.message ?? "it is not understood"}`;
}

/** What is wrong with a line, before its number is known. */
class LineError extends Error {}

function createLineError(problem: string): LineError {
  return new LineError(problem);
}

const CUT_SHORT: ReadonlySet<string> = new Set(["AbortError", "TimeoutError"]);

/** Whatever a line leads to is told with its number, but for what is no fault of the line. */
function addLineNumber(thrown: unknown, line: number): unknown {
  if (thrown instanceof Error && CUT_SHORT.has(thrown.name)) return thrown;
  if (thrown instanceof QmError) {
    const { code, message, hint, details } = thrown;
    if (code !== "invalid_output" && code !== "too_large") return thrown;
    return new QmError("invalid_arguments", message, { hint: hint ?? NOTHING_IMPORTED, details, cause: thrown });
  }
  return new QmError("invalid_arguments", `line ${line}: ${getErrorMessage(thrown)}`, {
    hint: NOTHING_IMPORTED,
    details: { line },
    cause: thrown,
  });
}

const NOTHING_IMPORTED = "Nothing was imported. Put the line right, or export again.";

function notAnExportError(line: number): QmError {
  return new QmError("invalid_arguments", "it is not an export of notes that this version understands", {
    hint: 'Nothing was imported. The first line of one says {"quartermaster":"notes","version":1}.',
    details: { line },
  });
}
