import type { CallContext } from "../../core/action.ts";
import type { JsonObject } from "../../core/json.ts";
import type { IndexParts } from "./index-source.ts";
import type { RecallType } from "./rag-search.ts";
import type { RagSource, StoredChunk } from "./rag-store.ts";

export interface RecallRequest {
  readonly query: string;
  readonly sources?: readonly string[] | undefined;
  readonly limit: number;
  readonly type?: RecallType | undefined;
}

const MORE = 4;
const MAX_RANKED = 2_000;

/** The passages that fit best, each with the place it is from. Leaves out documents that the caller could not read. */
export async function recall(
  { store, search, rights, access }: IndexParts,
  { query, sources: names, limit, type }: RecallRequest,
  { caller, signal }: CallContext,
): Promise<JsonObject> {
  const sources = names === undefined ? await access.listVisible(caller) : await access.require(names, caller);
  const searched = sources.map(({ name }) => name);
  if (sources.length === 0)
    return { query, hits: [], sources: searched, note: "No source is indexed that you may recall from." };
  for (let count = limit * MORE; ; count *= MORE) {
    const found = await search.search(sources, { query, type, limit: Math.min(count, MAX_RANKED), signal });
    const chunks = new Map((await store.chunks(found.ranked.map(({ id }) => id))).map((chunk) => [chunk.id, chunk]));
    const usable = found.ranked.flatMap(({ id, score }) => {
      const chunk = chunks.get(id);
      const mayRead = chunk !== undefined && rights.mayRead(caller, chunk.read.action, chunk.read.args);
      return chunk !== undefined && mayRead ? [{ chunk, score }] : [];
    });
    const isAll = found.ranked.length < count || count >= MAX_RANKED;
    if (usable.length <= limit && !isAll) continue;
    const shown = usable.slice(0, limit);
    const used = sources.filter(({ id }) => shown.some(({ chunk }) => chunk.sourceId === id));
    rights.addCallSources(used.flatMap(({ madeFrom }) => madeFrom.actions));
    const nothing = "Nothing in these sources fits the query. Do not guess an answer from them.";
    const left = found.left > 0 ? [`${found.left} chunks were not searched, because the index is full.`] : [];
    const note = [...(shown.length === 0 ? [nothing] : []), ...found.notes, ...left].join(" ");
    return {
      query,
      hits: shown.map(({ chunk, score }) => toHit(chunk, score, sources)),
      sources: searched,
      search: found.effective,
      ...(usable.length > limit ? { more: true } : {}),
      ...(found.unmatched.length > 0 ? { unmatched: [...found.unmatched] } : {}),
      ...(note === "" ? {} : { note }),
    };
  }
}

function toHit(chunk: StoredChunk, score: number, sources: readonly RagSource[]): JsonObject {
  const { sourceId, document, title, heading, text, lines, offset } = chunk;
  return {
    source: sources.find(({ id }) => id === sourceId)?.name ?? "",
    document,
    title,
    ...(heading === "" ? {} : { heading }),
    text,
    lines: [...lines],
    offset: [...offset],
    score: Math.round(score * 1_000) / 1_000,
  };
}
