import { isRecord } from "./json.ts";
import { quoteName } from "./names.ts";

/** Reads the body of an answer, up to a number of bytes. */
export async function readUpTo(limit: number, response: Response) {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > limit) break;
  }
  return { text: Buffer.concat(chunks).subarray(0, limit).toString("utf8"), isCut: size > limit };
}

/** The message of the server, without messages about a key: OpenAI's shows the ends of a wrong key. */
export function quoteServerMessage(text: string, status: number, apiKey: string | undefined): string {
  const words = status === 401 || status === 403 ? undefined : extractMessage(text);
  // The whole answer is checked: with a key anywhere in it, no part is quoted.
  return words === undefined || containsKeyPiece(words, apiKey) || containsKeyPiece(text, apiKey)
    ? ""
    : `: ${quoteName(words)}`;
}

function extractMessage(text: string): string | undefined {
  try {
    const answer: unknown = JSON.parse(text);
    if (!isRecord(answer)) return undefined;
    const { error } = answer;
    const words = isRecord(error) ? error.message : (error ?? answer.message);
    return typeof words === "string" ? words : undefined;
  } catch {
    return undefined;
  }
}

const PIECE = 6;

/** Whether any six characters of the key are in the text: it may be cut or masked. */
function containsKeyPiece(text: string, apiKey: string | undefined): boolean {
  if (apiKey === undefined) return false;
  const length = Math.min(PIECE, apiKey.length);
  for (let at = 0; at + length <= apiKey.length; at++) if (text.includes(apiKey.slice(at, at + length))) return true;
  return false;
}
