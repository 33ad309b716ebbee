import { Buffer } from "node:buffer";
import type { Finding } from "./finding.ts";

const BASE64 = /[A-Za-z0-9+/_-]{32,}/g;
const HEX = /^[0-9a-fA-F]+$/;
/** So many characters of a long run tell whether it is text. */
const SAMPLE = 4_000;
/** Space that nobody scrolls through. */
const WIDE = 100;
const SPACE = /\s{20,}/g;
const HIGH = 15;
/** Nobody reads so far, and a model does. */
const LONG = 8_000;

/** Text that one has to decode to read it, and text behind so much space that nobody sees it. */
export function encodedFound(text: string): readonly Finding[] {
  const found: Finding[] = [];
  if (text.length < 32) return found;
  for (const { 0: run, index: from } of text.matchAll(BASE64)) {
    const sample = run.slice(0, SAMPLE);
    const decoded = Buffer.from(sample, HEX.test(sample) ? "hex" : "base64").toString("latin1");
    if (!isProse(decoded)) continue;
    found.push({ kind: "encoded_text", severity: "serious", from, to: from + run.length });
    break;
  }
  for (const { 0: space, index } of text.matchAll(SPACE)) {
    const from = index + space.length;
    if (from === text.length || index === 0) continue;
    if (space.length < WIDE && space.split("\n").length <= HIGH) continue;
    found.push({ kind: "hidden_tail", severity: "serious", from, to: from + 1 });
    break;
  }
  if (text.length > LONG) found.push({ kind: "hidden_tail", severity: "mild", from: LONG, to: LONG + 1 });
  return found;
}

/** Whether it is made of words: letters and spaces, nearly all of it. */
function isProse(text: string): boolean {
  const readable = text.match(/[\x20-\x7E\n]/g)?.length ?? 0;
  const spaces = text.match(/[a-z,.] [A-Za-z~/.]/g)?.length ?? 0;
  return readable >= text.length * 0.95 && spaces >= 3;
}
