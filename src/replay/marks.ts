/** What the redactor leaves where it took something out, whole or inside a text. */
const MARK =
  /\[redacted\]|\[cut: \d+ (?:characters in all|more)\]|^\[(?:too deep|cycle|unreadable|function|symbol|bigint|\d+ bytes)\]$/;

/** Whether a value from the ledger lacks something that was there when it was written. */
export function isAltered(value: unknown): boolean {
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next === "string") {
      if (MARK.test(next)) return true;
    } else if (typeof next === "object" && next !== null) {
      for (const [key, part] of Object.entries(next)) open.push(key, part);
    }
  }
  return false;
}
