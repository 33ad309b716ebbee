import { QmError } from "../core/errors.ts";

const BODY_BYTES = 64 * 1024;

/** The text of a request's body. Throws `unsupported_content`, `too_large` and `cancelled`; it is not read further then. */
export async function bodyText(request: Request, type: string): Promise<string> {
  const [given = ""] = (request.headers.get("content-type") ?? "").split(";");
  if (given.trim().toLowerCase() !== type)
    throw new QmError("unsupported_content", `the body must be ${type}`, { hint: `Send Content-Type: ${type}.` });
  const bytes = await bytesOf(request).catch((thrown: unknown) => {
    throw thrown instanceof QmError ? thrown : new QmError("cancelled", "the body was not sent to its end");
  });
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new QmError("unsupported_content", "the body is not UTF-8 text");
  }
}

async function bytesOf({ body, headers }: Request): Promise<Buffer> {
  if (Number(headers.get("content-length") ?? 0) > BODY_BYTES) throw tooLarge();
  const chunks: Uint8Array[] = [];
  if (body === null) return Buffer.alloc(0);
  let size = 0;
  const reader = body.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    size += next.value.length;
    if (size > BODY_BYTES) throw tooLarge();
    chunks.push(next.value);
  }
  return Buffer.concat(chunks, size);
}

function tooLarge(): QmError {
  return new QmError("too_large", `a body has at most ${BODY_BYTES} bytes`);
}
