/** What comes, in lists of so many at most, or of about so many bytes; none is empty. What came before a break comes as well. */
export async function* portions<T extends object>(
  source: AsyncIterable<T & { readonly bytes?: number }>,
  limits: { readonly members: number; readonly bytes: number },
): AsyncGenerator<readonly T[]> {
  let held: T[] = [];
  let bytes = 0;
  try {
    for await (const each of source) {
      held.push(each);
      bytes += each.bytes ?? 0;
      if (held.length < limits.members && bytes < limits.bytes) continue;
      yield held;
      held = [];
      bytes = 0;
    }
  } catch (thrown) {
    if (held.length > 0) yield held;
    throw thrown;
  }
  if (held.length > 0) yield held;
}
