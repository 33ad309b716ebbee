/** The score that the best `count` have at least; 0 when there are not more. Looks at each once. */
export function leastOfBest(scores: Float64Array, count: number): number {
  if (scores.length <= count) return 0;
  // A heap with its least on top: most scores are below it and cost one comparison.
  const heap = scores.slice(0, count).sort();
  for (let at = count; at < scores.length; at++) {
    const score = scores[at] ?? 0;
    if (score > (heap[0] ?? 0)) replaceLeast(heap, score);
  }
  return heap[0] ?? 0;
}

function replaceLeast(heap: Float64Array, score: number): void {
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && (heap[child + 1] ?? 0) < (heap[child] ?? 0)) child++;
    if ((heap[child] ?? 0) >= score) break;
    heap[at] = heap[child] ?? 0;
    at = child;
  }
  heap[at] = score;
}
