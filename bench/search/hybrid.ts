import { createEmbedder } from "../../src/search/embedders/create-embedder.ts";
import type { Embedder } from "../../src/search/embedders/embedder.ts";
import { fuseHits } from "../../src/search/hits.ts";
import { toEmbeddedText } from "../../src/search/semantic/action-text.ts";
import type { Lexical } from "./compiled.ts";
import type { Entry } from "./corpus.ts";
import { type Ranker, type Ranking, viewOf } from "./ranker.ts";

const AT_ONCE = 256;
const FUSED_FROM = 50;

/** Search by words and by meaning, if `QM_BENCH_EMBEDDINGS_URL` is set (see also `_MODEL` and `_KEY`). */
export function hybrid(lexical: Lexical, say: (line: string) => void): readonly Ranker[] {
  const {
    QM_BENCH_EMBEDDINGS_URL: baseUrl,
    QM_BENCH_EMBEDDINGS_MODEL: model,
    QM_BENCH_EMBEDDINGS_KEY: apiKey,
  } = process.env;
  if (baseUrl === undefined) {
    say("no figures for hybrid search: QM_BENCH_EMBEDDINGS_URL is not set");
    return [];
  }
  const chosen = createEmbedder({
    class: "standard",
    baseUrl,
    ...(model === undefined ? {} : { model }),
    ...(apiKey === undefined ? {} : { apiKey }),
  });
  if (!("embedder" in chosen)) throw new Error(JSON.stringify(chosen));
  const { embedder } = chosen;
  return [{ name: "quartermaster, hybrid", build: (entries) => byBoth(lexical, embedder, entries) }];
}

async function byBoth(
  { createLexicalIndex, createHitOrder }: Lexical,
  embedder: Embedder,
  entries: readonly Entry[],
): Promise<Ranking> {
  const actions = entries.map(({ action }) => action);
  const ids = new Map(entries.map(({ id, action }) => [action, id]));
  const index = createLexicalIndex(actions);
  const view = viewOf(actions);
  const order = createHitOrder();
  const { signal } = new AbortController();
  const vectors: Float32Array[] = [];
  for (let from = 0; from < actions.length; from += AT_ONCE) {
    const texts = actions.slice(from, from + AT_ONCE).map(toEmbeddedText);
    vectors.push(...(await embedder.embed(texts, "document", signal)));
  }
  return {
    async rank(query, limit) {
      const [asked = new Float32Array()] = await embedder.embed([query], "query", signal);
      const meant = actions
        .map((action, at) => ({ action, score: Math.max(0, dot(asked, vectors[at] ?? asked)) }))
        .sort(order)
        .slice(0, FUSED_FROM);
      const { hits } = index.search(query, view, { limit: FUSED_FROM, order });
      return fuseHits([hits, meant], { limit, order }).map(({ action }) => ids.get(action) ?? "");
    },
  };
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += (a[at] ?? 0) * (b[at] ?? 0);
  return sum;
}
