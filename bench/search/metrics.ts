export interface Metrics {
  readonly recall1: number;
  readonly recall5: number;
  readonly ndcg10: number;
  readonly mrr: number;
}

/** Measures a ranked list of ids: the share of relevant ids found, and how high they rank. */
export function judged(ranked: readonly string[], relevant: readonly string[]): Metrics {
  const wanted = new Set(relevant);
  const found = (depth: number): number => ranked.slice(0, depth).filter((id) => wanted.has(id)).length / wanted.size;
  let gain = 0;
  let first = 0;
  ranked.slice(0, 10).forEach((id, rank) => {
    if (!wanted.has(id)) return;
    gain += 1 / Math.log2(rank + 2);
    first ||= 1 / (rank + 1);
  });
  let ideal = 0;
  for (let rank = 0; rank < Math.min(10, wanted.size); rank++) ideal += 1 / Math.log2(rank + 2);
  return { recall1: found(1), recall5: found(5), ndcg10: gain / ideal, mrr: first };
}

export function mean(all: readonly Metrics[]): Metrics {
  const average = (pick: (each: Metrics) => number): number =>
    all.reduce((sum, each) => sum + pick(each), 0) / all.length;
  return {
    recall1: average((each) => each.recall1),
    recall5: average((each) => each.recall5),
    ndcg10: average((each) => each.ndcg10),
    mrr: average((each) => each.mrr),
  };
}
