import type { IncomingMessage, ServerResponse } from "node:http";

/** The body of a request, or undefined where it is longer than it may be; it is not read further then. */
export async function bodyText(incoming: IncomingMessage, limit: number): Promise<string | undefined> {
  if (Number(incoming.headers["content-length"] ?? 0) > limit) return undefined;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limit) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size).toString("utf8");
}

/** The request as web standards have it, without its body. Its signal is aborted when the client hangs up. */
export function webRequest(incoming: IncomingMessage, outgoing: ServerResponse, base: string): Request {
  const gone = new AbortController();
  outgoing.once("close", () => gone.abort());
  const headers = new Headers();
  for (let at = 0; at + 1 < incoming.rawHeaders.length; at += 2) {
    headers.append(incoming.rawHeaders[at] ?? "", incoming.rawHeaders[at + 1] ?? "");
  }
  return new Request(new URL(incoming.url ?? "/", base), {
    method: incoming.method ?? "GET",
    headers,
    signal: gone.signal,
  });
}

/** Writes an answer, as fast as the client takes it, and lets go of it when the client hangs up. */
export async function writeResponse(
  outgoing: ServerResponse,
  response: Response,
  more: Readonly<Record<string, string>>,
): Promise<void> {
  outgoing.writeHead(response.status, { ...Object.fromEntries(response.headers), ...more });
  if (response.body === null) {
    outgoing.end();
    return;
  }
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    outgoing.end(Buffer.from(await response.arrayBuffer()));
    return;
  }
  outgoing.flushHeaders();
  const reader = response.body.getReader();
  outgoing.once("close", () => void reader.cancel().catch(() => {}));
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    if (outgoing.destroyed) break;
    if (!outgoing.write(next.value)) await drained(outgoing);
  }
  outgoing.end();
}

function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      outgoing.off("drain", done).off("close", done);
      resolve();
    };
    outgoing.once("drain", done).once("close", done);
  });
}
