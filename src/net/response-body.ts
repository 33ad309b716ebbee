import { Readable, type Transform } from "node:stream";
import zlib from "node:zlib";
import { QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";

/** Reads at most `maxBytes`, sent and decoded. The rest is not decoded, so that a small body cannot grow without end. */
export async function readResponseBody(
  body: Readable,
  encoding: string | undefined,
  maxBytes: number,
): Promise<{ readonly bytes: Uint8Array; readonly truncated: boolean }> {
  const chunks: Buffer[] = [];
  let size = 0;
  let sent = 0;
  /** Encoded bytes that decode to nothing count too, or they could go on until the time is up. */
  async function* readSent() {
    for await (const chunk of body) {
      sent += chunk.length;
      if (sent > maxBytes) return;
      yield chunk;
    }
  }
  try {
    const decoder = createDecoder(encoding);
    const decoded =
      decoder &&
      Readable.from(readSent())
        .on("error", (failure) => decoder.destroy(failure))
        .pipe(decoder);
    for await (const chunk of decoded ?? body) {
      chunks.push(chunk.subarray(0, maxBytes - size));
      size += chunk.length;
      if (size > maxBytes) break;
    }
  } finally {
    body.on("error", () => {}).destroy();
  }
  return { bytes: Buffer.concat(chunks), truncated: Math.max(size, sent) > maxBytes };
}

/** Throws `unsupported_content`. A body that ends too early is decoded as far as it goes, as browsers do. */
function createDecoder(encoding = ""): Transform | undefined {
  const lenient = { finishFlush: zlib.constants.Z_SYNC_FLUSH };
  switch (encoding.trim().toLowerCase()) {
    case "":
    case "identity":
      return undefined;
    case "gzip":
    case "x-gzip":
      return zlib.createGunzip(lenient);
    case "deflate":
      return zlib.createInflate(lenient);
    case "br":
      return zlib.createBrotliDecompress({ finishFlush: zlib.constants.BROTLI_OPERATION_FLUSH });
    default:
      throw new QmError("unsupported_content", `the response has the unknown encoding ${quoteName(encoding)}`);
  }
}
