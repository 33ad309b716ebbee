import { tokensIn } from "../distribution/anchor-token.ts";

/** What the redactor leaves where it took something out, whole or inside a text. */
const MARK =
  /\[redacted\]|\[cut: \d+ (?:characters in all|more)\]|^\[(?:too deep|cycle|unreadable|function|symbol|bigint|\d+ bytes)\]$/;

/** Whether a value from the ledger lacks something that was there when it was written. */
export function isAltered(value: unknown): boolean {
  return hasText(value, (text) => MARK.test(text));
}

/** Whether it holds tokens in place of values that the model was not shown. */
export function holdsTokens(value: unknown): boolean {
  return hasText(value, (text) => tokensIn(text).length > 0);
}

function hasText(value: unknown, is: (text: string) => boolean): boolean {
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next === "string") {
      if (is(next)) return true;
    } else if (typeof next === "object" && next !== null) {
      for (const [key, part] of Object.entries(next)) open.push(key, part);
    }
  }
  return false;
}
