import type { CallContext } from "../../core/action.ts";
import { type ErrorCode, errorCodes, QmError } from "../../core/errors.ts";
import { isRecord, type Json, type JsonObject, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { normalizeArgs } from "../../core/normalize-arguments.ts";
import { toOutcomeError } from "../../core/outcome.ts";
import type { DocumentCall, SourceContents } from "./rag-store.ts";
import type { RagRights } from "./source-access.ts";

/** The limits of a source, and of each document. Chunks are limited too: each can be as short as a heading and a word. */
export const documentLimits = {
  documents: 5_000,
  characters: 32_000_000,
  chunks: 100_000,
  documentCharacters: 2_000_000,
  documentChunks: 10_000,
};
const FOLDER_DEPTH = 20;
/** The largest limit of `file__read`, which scans the file from its start for each slice. */
const SLICE_LINES = 100_000;
/** A hidden file, or one in a hidden folder. */
const HIDDEN = /(?:^|\/)\./;
const MARKDOWN = /\.(?:md|mdx|markdown)$/i;

/** `cut`: only the first part was read. */
export interface ReadDocument {
  readonly document: string;
  readonly title?: string | undefined;
  readonly content: string;
  readonly isMarkdown: boolean;
  readonly cut: boolean;
  readonly read: DocumentCall;
}

/** `retryable`: reading it later may succeed. `isSkipped`: a file of a folder that is not text, which is no failure. */
export type UnreadDocument = Readonly<{
  document: string;
  code: ErrorCode;
  error: string;
  retryable: boolean;
  isSkipped: boolean;
}>;

export interface DocumentReading {
  readonly documents: AsyncIterable<ReadDocument | UnreadDocument>;
  /** How many documents were listed so far. */
  readonly total: number;
  /** Whether documents were left out because of a limit. */
  readonly isLimited: boolean;
  /** The actions that were called. */
  readonly actions: ReadonlySet<string>;
}

/** These end the whole call: every further document would fail in the same way. */
const FATAL_CODES: ReadonlySet<string> = new Set<ErrorCode>([
  "budget_exceeded",
  "cancelled",
  "ledger_failed",
  "overloaded",
  "store_failed",
]);

/** Reads documents through other actions only, so that every rule about them binds. */
export function readDocuments(
  contents: SourceContents,
  context: CallContext,
  { toText, holdsSecret }: Pick<RagRights, "toText" | "holdsSecret">,
): DocumentReading {
  const actions = new Set<string>();
  const state = { total: 0, isLimited: false };

  async function call(name: string, args: JsonObject): Promise<JsonObject> {
    actions.add(name);
    const outcome = await context.invoke(name, args);
    context.signal.throwIfAborted();
    if (outcome.status === "done") return isRecord(outcome.data) ? (outcome.data as JsonObject) : {};
    // The call around it waits too, and is repeated after the approval.
    if (outcome.status === "waiting") throw new WaitingForApproval(name);
    throw toOutcomeError(outcome);
  }

  /** The paths in order, and whether a pattern names them. */
  async function listFiles(): Promise<readonly (readonly [path: string, isNamed: boolean])[]> {
    const { files = [], folder } = contents;
    const paths = new Map<string, boolean>();
    const limit = documentLimits.documents;
    if (folder !== undefined) {
      const found = await call("file__list", { path: folder, depth: FOLDER_DEPTH, limit });
      const entries = Array.isArray(found.entries) ? found.entries.filter(isRecord) : [];
      const start = found.path === "." ? 0 : String(found.path).length + 1;
      for (const { path, kind } of entries) {
        if (kind === "file" && typeof path === "string" && !HIDDEN.test(path.slice(start))) paths.set(path, false);
      }
      if (found.truncated === true || found.incomplete === true) state.isLimited = true;
    }
    for (const pattern of files) {
      const found = await call("file__glob", { pattern, limit });
      for (const path of toTexts(found.paths)) paths.set(path, true);
      if (found.truncated === true || found.incomplete === true) state.isLimited = true;
    }
    return [...paths].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  /** A long file comes in slices. Fails if the file changes between two of them. */
  async function readFile(path: string): Promise<ReadDocument> {
    let content = "";
    let digest: Json | undefined;
    for (let next: JsonObject = {}; ; ) {
      const slice = await call("file__read", { path, ...next });
      const { content: text, sha256, next_offset: offset, next_byte_offset: byteOffset } = slice;
      if (digest !== undefined && sha256 !== undefined && sha256 !== digest)
        throw new QmError("conflict", "the file was changed while it was read");
      if (typeof text !== "string") throw new QmError("unsupported_content", `${quoteName(path)} is not a text file`);
      digest ??= sha256;
      content += text;
      const hasMore = typeof offset === "number";
      const isFull = content.length >= documentLimits.documentCharacters;
      if (!hasMore || isFull) {
        const read = { action: "file__read", args: { path } };
        return { document: path, ...cutContent(content, hasMore), isMarkdown: MARKDOWN.test(path), read };
      }
      next = omitUndefined({ offset, byte_offset: byteOffset, limit: SLICE_LINES }) as JsonObject;
    }
  }

  async function readPage(given: string): Promise<ReadDocument> {
    // Rules see addresses in this form, also when the passages are recalled.
    const url = String(normalizeArgs({ url: "url" }, { url: given }).args.url);
    const { title, content, truncated } = await call("web__fetch", { url });
    if (typeof content !== "string") throw new QmError("unsupported_content", "the page has no text");
    const read = { action: "web__fetch", args: { url } };
    const named = typeof title === "string" && title !== "" ? { title } : {};
    return { document: url, ...named, ...cutContent(content, truncated === true), isMarkdown: true, read };
  }

  async function* readCollection(target: string): AsyncGenerator<ReadDocument | UnreadDocument> {
    const before = state.total;
    for (let from = 0; ; ) {
      const part = await call("infospace__load", { target, from });
      if (part.kind !== "collection" && !Array.isArray(part.items))
        throw new QmError("invalid_arguments", `${target} is not a collection`);
      if (typeof part.total === "number") state.total = before + part.total;
      const items = (Array.isArray(part.items) ? part.items.filter(isRecord) : []) as JsonObject[];
      for (const { handle, value, cut } of items) {
        const document = String(handle);
        yield await attempt(document, () => readItem(document, value ?? null, cut === true));
      }
      if (part.more !== true || typeof part.to !== "number" || part.to <= from) return;
      from = part.to;
    }
  }

  /** Loads the rest of a long text. Of any other long value only the part that is shown can be read. */
  async function readItem(document: string, value: Json, isCut: boolean): Promise<ReadDocument> {
    const read = { action: "infospace__load", args: { target: document } };
    if (!isCut || typeof value !== "string")
      return { document, ...cutContent(toText(value), isCut), isMarkdown: false, read };
    let content = "";
    for (let more = true; more && content.length < documentLimits.documentCharacters; ) {
      const part = await call("infospace__load", { target: document, from: content.length });
      const text = typeof part.text === "string" ? part.text : "";
      content += text;
      more = part.more === true && text !== "";
      if (!more) return { document, ...cutContent(content, part.more === true), isMarkdown: false, read };
    }
    return { document, ...cutContent(content, true), isMarkdown: false, read };
  }

  async function attempt(
    document: string,
    read: () => Promise<ReadDocument>,
    isNamed = true,
  ): Promise<ReadDocument | UnreadDocument> {
    try {
      const found = await read();
      // The secret would be sent to the embedder.
      if (!holdsSecret(found.content)) return found;
      throw new QmError("denied", `${quoteName(document)} holds the value of a known secret`);
    } catch (thrown) {
      context.signal.throwIfAborted();
      if (!(thrown instanceof QmError) || thrown instanceof WaitingForApproval || FATAL_CODES.has(thrown.code))
        throw thrown;
      const { code, message: error } = thrown;
      const isSkipped = !isNamed && code === "unsupported_content";
      return { document, code, error, retryable: errorCodes[code].retryable || code === "conflict", isSkipped };
    }
  }

  async function* readAll(): AsyncGenerator<ReadDocument | UnreadDocument> {
    const { urls = [], collection } = contents;
    requireActions(contents, context);
    const paths = await listFiles();
    state.total = paths.length + urls.length;
    for (const [path, isNamed] of paths) yield await attempt(path, () => readFile(path), isNamed);
    for (const url of urls) yield await attempt(url, () => readPage(url));
    if (collection !== undefined) yield* readCollection(collection);
  }

  /** Stops at the limits. */
  async function* readWithinLimits(): AsyncGenerator<ReadDocument | UnreadDocument> {
    let [count, characters] = [0, 0];
    for await (const document of readAll()) {
      characters += "content" in document ? document.content.length : 0;
      if (++count > documentLimits.documents || characters > documentLimits.characters) {
        state.isLimited = true;
        return;
      }
      yield document;
    }
  }

  return {
    documents: readWithinLimits(),
    actions,
    get total() {
      return state.total;
    },
    get isLimited() {
      return state.isLimited;
    },
  };
}

/** Fails the call that indexes. The pipeline then lets that call wait for the same person. */
class WaitingForApproval extends QmError {
  constructor(action: string) {
    super("action_failed", `${action} waits for approval, so nothing was indexed yet`);
  }
}

function requireActions({ files, folder, urls, collection }: SourceContents, context: CallContext): void {
  const needed = [
    ...(files === undefined ? [] : ["file__glob", "file__read"]),
    ...(folder === undefined ? [] : ["file__list", "file__read"]),
    ...(urls === undefined ? [] : ["web__fetch"]),
    ...(collection === undefined ? [] : ["infospace__load"]),
  ];
  const missing = needed.find((name) => !context.sees(name));
  if (missing === undefined) return;
  const hint = "Index what the other actions can read. An operator can enable the action for you.";
  throw new QmError("denied", `indexing this needs ${missing}, which you cannot use`, { hint });
}

function cutContent(content: string, isCut: boolean): Pick<ReadDocument, "content" | "cut"> {
  const limit = documentLimits.documentCharacters;
  return { content: content.slice(0, limit), cut: isCut || content.length > limit };
}

const toTexts = (value: Json | undefined): readonly string[] =>
  Array.isArray(value) ? value.filter((each: Json) => typeof each === "string") : [];
