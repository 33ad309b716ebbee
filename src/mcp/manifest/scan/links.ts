import type { Finding } from "./finding.ts";

/** How long an address may be to be looked at. */
const REACH = 500;

/**
 * Images whose address has a gap to be filled: whoever shows the answer sends what was filled in to somebody. A text has
 * no other reason to hold an image.
 */
export function imagesFound(text: string): readonly Finding[] {
  const from = text.indexOf("![");
  const open = from < 0 ? -1 : text.indexOf("](http", from);
  if (open < 0 || open - from > REACH) return [];
  const address = text.slice(open + 2, open + REACH).split(")", 1)[0] ?? "";
  const severity = /[<{$%]|\?\w+=/.test(address) ? "serious" : "mild";
  return [{ kind: "exfiltration", severity, from, to: open + 2 + address.length }];
}
