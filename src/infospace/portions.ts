/** What comes, in lists of so many at most, or of about so many bytes; none is empty. */
export async function* portions<T extends object>(
  source: AsyncIterable<T & { readonly bytes?: number }>,
  limits: { readonly members: number; readonly bytes: number },
): AsyncGenerator<readonly T[]> {
  let held: T[] = [];
  let bytes = 0;
  for await (const each of source) {
    held.push(each);
    bytes += each.bytes ?? 0;
    if (held.length < limits.members && bytes < limits.bytes) continue;
    yield held;
    held = [];
    bytes = 0;
  }
  if (held.length > 0) yield held;
}
