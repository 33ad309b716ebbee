import { createHash } from "node:crypto";
import type { ActionOwner, CallContext } from "../../core/action.ts";
import { yieldToEventLoop } from "../../core/async.ts";
import type { Caller } from "../../core/caller.ts";
import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName, quoteName } from "../../core/names.ts";
import type { DocumentChunk, NewDocument, RagSource, SourceContents, StoredDocument } from "./rag-store.ts";
import { type DocumentReading, documentLimits, type ReadDocument, readDocuments } from "./read-documents.ts";
import type { RagParts } from "./recall.ts";
import { OPERATIONS, type RagRights } from "./source-access.ts";
import { findTitle, splitDocument } from "./split-document.ts";

export type IndexRequest = SourceContents &
  Readonly<{ source: string; description?: string | undefined; preview?: boolean }>;

/** The version of the splitter. Change it with the splitter, so that unchanged documents are split again. */
const SPLITTER = "2";
const INDEX = actionName(OPERATIONS, "index");

/** Reads all documents, then replaces the source at once. Until then, and after a failure, the former index is used. */
export async function indexSource(parts: RagParts, request: IndexRequest, context: CallContext): Promise<JsonObject> {
  const { store, search, rights } = parts;
  const { caller, signal, dialogue } = context;
  const description = request.description === undefined ? undefined : checkDescription(rights, request.description);
  const former = await findFormer(parts, request, caller);
  const contents = pickContents(request) ?? former?.contents;
  if (contents === undefined) {
    const hint = "Give files, folder, urls or collection. To index a known source again, its name is enough.";
    const example = { source: request.source, files: ["docs/**/*.md"] };
    const message = `there is nothing to index as ${quoteName(request.source)}`;
    throw new QmError("invalid_arguments", message, { hint, details: { example } });
  }
  const known = former === undefined ? [] : await store.documents([former.id]);
  const reading = readDocuments(contents, context, rights);
  const found = await compareDocuments(reading, known, {
    mayRead: ({ read }) => rights.mayRead(caller, read),
    onProgress: (progress) => dialogue?.progress({ progress, total: reading.total, message: "documents read" }),
  });
  if (former === undefined && found.put.length === 0) throw createNothingReadError(request.source, found.failed);
  const report = toReport(found, reading);
  const texts = found.put.flatMap(({ document, chunks }) => chunks.map((chunk) => ({ ...chunk, document })));
  if (request.preview) {
    const characters = found.put.reduce((sum, document) => sum + document.characters, 0);
    return { source: request.source, preview: true, ...report, new_chunks: texts.length, new_characters: characters };
  }

  const onProgress = ({ done, total }: { done: number; total: number }) =>
    dialogue?.progress({ progress: done, total, message: "chunks embedded" });
  await search.prepare(texts, { signal, onProgress });
  signal.throwIfAborted();
  // Unchanged documents came from the same actions as before.
  const isPrivate = contents.collection !== undefined;
  const read = isPrivate ? [...reading.actions, ...rights.listCallSources()] : [...reading.actions];
  const actions = new Set([...(former?.madeFrom.actions ?? []), ...read].filter((name) => name !== INDEX));
  const source = {
    name: request.source,
    description: description ?? former?.description ?? "",
    owner: former?.owner ?? toOwner(caller, isPrivate),
    madeFrom: { actions: [...actions].sort(), maker: former?.madeFrom.maker ?? toOwner(caller, true) },
    contents,
  };
  const saved = await store.save({ former, source, put: found.put, removed: found.removed });
  const withoutVectors = await search.complete(saved, { signal });
  return {
    source: saved.name,
    documents: found.documents,
    chunks: found.chunks,
    ...report,
    ...(withoutVectors === undefined ? {} : { note: `Found by words only: ${withoutVectors}` }),
  };
}

/** Other actors see it in lists, so it must be one line without instructions to models. */
function checkDescription(rights: RagRights, text: string): string {
  const description = toOneLine(text);
  const signs = rights.scan(description);
  if (signs.length === 0 && !rights.holdsSecret(description)) return description;
  const why = signs.length === 0 ? "it holds the value of a known secret" : signs.join(", ");
  const hint = "Say in plain words what the source is about.";
  throw new QmError("invalid_arguments", `the description could mislead models or leak: ${why}`, { hint });
}

/** How many documents a report names. */
const LISTED = 20;

function toReport(found: Comparison, reading: DocumentReading): JsonObject {
  const { failed, cut, added, unchanged, skipped, gone } = found;
  return {
    added,
    changed: found.put.length - added,
    unchanged,
    removed: gone,
    failed: failed.slice(0, LISTED),
    ...(failed.length > LISTED ? { failed_total: failed.length } : {}),
    ...(skipped > 0 ? { skipped } : {}),
    ...(cut.length > 0 ? { cut: cut.slice(0, LISTED), cut_total: cut.length } : {}),
    ...(reading.isLimited || found.isLimited ? { limited: true } : {}),
  };
}

/** The source that the call replaces. A source that the caller may not see keeps its name. */
async function findFormer({ store, access }: RagParts, request: IndexRequest, caller: Caller) {
  const { source: name, collection } = request;
  const visible = (await access.listVisible(caller)).find((each) => each.name === name);
  const isPrivate = collection !== undefined;
  // A source of the tenant must not take in what belongs to one caller.
  if (visible !== undefined && (!isPrivate || visible.owner.user !== undefined)) return visible;
  const all = await store.list(caller.tenant ?? "");
  const isTaken = all.some((each) => each.name === name && (each.owner.user === undefined || each === visible));
  if (!isTaken) return undefined;
  const hint = "Choose another name.";
  throw new QmError("conflict", `the name ${quoteName(name)} is taken by another source`, { hint });
}

/** The changes of a source, and the sizes of what the caller could read afterwards. */
interface Comparison {
  put: NewDocument[];
  removed: number[];
  failed: { document: string; code: string; error: string; kept?: true }[];
  cut: string[];
  added: number;
  unchanged: number;
  /** Files of a folder that are not text. */
  skipped: number;
  gone: number;
  documents: number;
  chunks: number;
  /** Whether documents were left out, because there are too many chunks. */
  isLimited: boolean;
}

interface CompareOptions {
  mayRead(document: StoredDocument): boolean;
  onProgress(done: number): void;
}

async function compareDocuments(
  reading: DocumentReading,
  stored: readonly StoredDocument[],
  { mayRead, onProgress }: CompareOptions,
): Promise<Comparison> {
  const lists = { put: [], removed: [], failed: [], cut: [] };
  const counts = { added: 0, unchanged: 0, skipped: 0, gone: 0, documents: 0, chunks: 0 };
  const found: Comparison = { ...lists, ...counts, isLimited: false };
  const known = new Map(stored.map((each) => [each.document, each]));
  const fates = new Map<string, "kept" | "put">();
  const settle = (document: string, fate: "kept" | "put", chunks: number): void => {
    fates.set(document, fate);
    found.documents++;
    found.chunks += chunks;
  };
  let done = 0;
  for await (const each of reading.documents) {
    await yieldToEventLoop();
    if (++done % Math.ceil(reading.total / PROGRESS_STEPS) === 0 || done === reading.total) onProgress(done);
    const { document } = each;
    const former = known.get(document);
    // Two addresses can be of the same page, and a collection can have the same note twice.
    if (fates.has(document)) continue;
    if (!("content" in each)) {
      const isKept = each.retryable && former !== undefined && mayRead(former);
      if (isKept) settle(document, "kept", former.chunks);
      if (each.isSkipped) found.skipped++;
      else found.failed.push({ document, code: each.code, error: each.error, ...(isKept ? { kept: true } : {}) });
      continue;
    }
    const hash = hashDocument(each);
    const fresh = former?.hash === hash ? undefined : await toNewDocument(each, hash);
    const chunks = fresh?.chunks.length ?? former?.chunks ?? 0;
    settle(document, fresh === undefined ? "kept" : "put", chunks);
    if (fresh === undefined) found.unchanged++;
    else found.put.push(fresh);
    if (former === undefined) found.added++;
    if (each.cut || chunks === documentLimits.documentChunks) found.cut.push(document);
    found.isLimited = found.chunks >= documentLimits.chunks;
    if (found.isLimited) break;
  }
  for (const each of stored) {
    const fate = fates.get(each.document);
    // A caller that may not read a document must not remove it for others, nor learn about it.
    if (fate === "kept" || (fate === undefined && !mayRead(each))) continue;
    found.removed.push(each.id);
    if (fate === undefined) found.gone++;
  }
  return found;
}

const PROGRESS_STEPS = 100;
const TITLE_LIMIT = 200;
const CHUNKS_PER_TURN = 100;

async function toNewDocument(document: ReadDocument, hash: string): Promise<NewDocument> {
  const { document: name, content, isMarkdown, read } = document;
  const title = document.title ?? (isMarkdown ? findTitle(content) : undefined);
  const chunks: DocumentChunk[] = [];
  for (const chunk of splitDocument(content, isMarkdown)) {
    chunks.push(chunk);
    if (chunks.length === documentLimits.documentChunks) break;
    if (chunks.length % CHUNKS_PER_TURN === 0) await yieldToEventLoop();
  }
  const shown = title?.slice(0, TITLE_LIMIT) ?? name;
  return { document: name, title: shown, hash, characters: content.length, read, chunks };
}

function hashDocument({ content, title = "", isMarkdown }: ReadDocument): string {
  return createHash("sha256")
    .update(JSON.stringify([SPLITTER, isMarkdown, title]))
    .update(content)
    .digest("hex");
}

function pickContents({ files, folder, urls, collection }: IndexRequest): SourceContents | undefined {
  const contents = { files, folder, urls, collection };
  return Object.values(contents).some((each) => each !== undefined) ? contents : undefined;
}

function toOwner({ tenant = "", user, actor, session }: Caller, isPrivate: boolean): RagSource["owner"] {
  if (!isPrivate) return { tenant };
  const owner: ActionOwner = { user: user?.id ?? "", actor };
  // Without a user, callers of the same actor differ only in their session.
  return { tenant, ...owner, ...(user === undefined ? { session } : {}) };
}

function createNothingReadError(source: string, failed: Comparison["failed"]): QmError {
  if (failed.length === 0) {
    return new QmError("not_found", `no document was found for ${quoteName(source)}`, {
      hint: "Check the patterns, the folder or the collection.",
    });
  }
  return new QmError("action_failed", `none of the ${failed.length} documents could be read`, {
    details: { failed: failed.slice(0, LISTED) },
  });
}
