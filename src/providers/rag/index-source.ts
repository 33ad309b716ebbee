import { createHash } from "node:crypto";
import type { ActionOwner, CallContext } from "../../core/action.ts";
import { yieldToEventLoop } from "../../core/async.ts";
import type { Caller } from "../../core/caller.ts";
import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName, quoteName } from "../../core/names.ts";
import type { NewDocument, RagSource, RagStore, SourceContents, StoredDocument } from "./rag-store.ts";
import { type DocumentReading, type ReadDocument, readDocuments, type UnreadDocument } from "./read-documents.ts";
import type { RagSearch } from "./recall.ts";
import { OPERATIONS, type RagRights, type SourceAccess } from "./source-access.ts";
import { findTitle, splitDocument } from "./split-document.ts";

export interface IndexParts {
  readonly store: RagStore;
  readonly search: RagSearch;
  readonly rights: RagRights;
  readonly access: SourceAccess;
}

export type IndexRequest = SourceContents &
  Readonly<{ source: string; description?: string | undefined; preview?: boolean }>;

/** Changed whenever documents are split differently, so that they are split again. */
const SPLITTER = "1";
const INDEX = actionName(OPERATIONS, "index");

/** Reads all documents, then replaces the source at once. Until then, and after a failure, the former index is used. */
export async function indexSource(parts: IndexParts, request: IndexRequest, context: CallContext): Promise<JsonObject> {
  const { store, search, rights } = parts;
  const { caller, signal, dialogue } = context;
  const description = request.description === undefined ? undefined : checkDescription(rights, request.description);
  const former = await findFormer(parts, request, caller);
  const contents = pickContents(request) ?? former?.contents;
  if (contents === undefined) {
    const hint = "Give files, folder, urls or collection. To index a known source again, its name is enough.";
    throw new QmError("invalid_arguments", `there is nothing to index as ${quoteName(request.source)}`, { hint });
  }
  const known = new Map((former ? await store.documents([former.id]) : []).map((each) => [each.document, each]));
  const reading = readDocuments(contents, context, rights);
  const found = await compareDocuments(reading, known, (progress) =>
    dialogue?.progress({ progress, total: Math.max(reading.total, progress), message: "documents read" }),
  );
  if (former === undefined && found.put.length === 0) throw nothingReadError(request.source, found.failed);
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
    documents: saved.documents,
    chunks: saved.chunks,
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

const LISTED = 20;

function toReport(found: Comparison, { isLimited }: DocumentReading): JsonObject {
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
    ...(isLimited ? { limited: true } : {}),
  };
}

/** The source that the call replaces. A source that the caller may not see keeps its name. */
async function findFormer({ store, access }: IndexParts, request: IndexRequest, caller: Caller) {
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
}

async function compareDocuments(
  reading: DocumentReading,
  known: ReadonlyMap<string, StoredDocument>,
  onProgress: (done: number) => void,
): Promise<Comparison> {
  const found: Comparison = { put: [], removed: [], failed: [], cut: [], added: 0, unchanged: 0, skipped: 0, gone: 0 };
  const kept = new Set<string>();
  const changed = new Set<string>();
  let done = 0;
  for await (const each of reading.documents) {
    await yieldToEventLoop();
    onProgress(++done);
    const former = known.get(each.document);
    if (!("content" in each)) {
      if (each.isSkipped) {
        found.skipped++;
        continue;
      }
      if (each.retryable && former !== undefined) kept.add(each.document);
      found.failed.push(toFailure(each, kept.has(each.document)));
      continue;
    }
    if (each.cut) found.cut.push(each.document);
    const hash = hashDocument(each);
    if (former?.hash === hash) {
      kept.add(each.document);
      found.unchanged++;
      continue;
    }
    found.put.push(toNewDocument(each, hash));
    changed.add(each.document);
    if (former === undefined) found.added++;
  }
  for (const { id, document } of known.values()) {
    if (kept.has(document)) continue;
    found.removed.push(id);
    if (!changed.has(document)) found.gone++;
  }
  return found;
}

function toFailure({ document, code, error }: UnreadDocument, isKept: boolean): Comparison["failed"][number] {
  return { document, code, error, ...(isKept ? { kept: true as const } : {}) };
}

function toNewDocument(document: ReadDocument, hash: string): NewDocument {
  const { content, isMarkdown, read } = document;
  const title = document.title ?? (isMarkdown ? findTitle(content) : undefined) ?? document.document;
  const chunks = splitDocument(content, isMarkdown);
  return { document: document.document, title, hash, characters: content.length, read, chunks };
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

function nothingReadError(source: string, failed: Comparison["failed"]): QmError {
  if (failed.length === 0) {
    return new QmError("not_found", `no document was found for ${quoteName(source)}`, {
      hint: "Check the patterns, the folder or the collection.",
    });
  }
  return new QmError("action_failed", `none of the ${failed.length} documents could be read`, {
    details: { failed: failed.slice(0, 20) },
  });
}
