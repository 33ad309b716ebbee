/** The most members and about the most bytes that are read or written at a time. */
export type PortionLimits = Readonly<{ members: number; bytes: number }>;
type Source<T> = AsyncIterable<T> | Iterable<T>;

/** Groups a stream into non-empty lists. If the source fails, the last list is yielded before the error is thrown. */
export async function* batchMembers<T extends object>(source: Source<T & { bytes?: number }>, limits: PortionLimits) {
  let batch: T[] = [];
  let bytes = 0;
  try {
    for await (const member of source) {
      batch.push(member);
      bytes += member.bytes ?? 0;
      if (batch.length < limits.members && bytes < limits.bytes) continue;
      yield batch;
      batch = [];
      bytes = 0;
    }
  } catch (thrown) {
    if (batch.length > 0) yield batch;
    throw thrown;
  }
  if (batch.length > 0) yield batch;
}

/** How many notes of a collection are likely to fit a portion. */
export function estimatePageSize({ count, bytes }: { count: number; bytes: number }, limits: PortionLimits): number {
  return Math.max(1, Math.min(limits.members, Math.floor((limits.bytes * count) / Math.max(1, bytes))));
}
