import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { Readable } from "node:stream";

interface Sent {
  readonly method: "GET" | "POST";
  readonly headers: Headers;
  readonly body?: string | undefined;
  readonly signal?: AbortSignal | null | undefined;
}

/** Shorter than most servers keep an idle connection, so that none is used while its server closes it. */
const IDLE_MS = 4_000;

/** Responses that have no body, whatever they say. */
const EMPTY_STATUSES: readonly number[] = [204, 205, 304];

/**
 * Sends a request like `fetch`, at a third of its cost. Follows no redirect. A JSON document with a known length up to
 * `limit` is read at once. Other bodies are streams, of any length.
 */
export function createRequester(limit: number): (url: URL, sent: Sent) => Promise<Response> {
  const options = { keepAlive: true, timeout: IDLE_MS };
  const plain = { request: httpRequest, agent: new HttpAgent(options) };
  const secure = { request: httpsRequest, agent: new HttpsAgent(options) };
  return async (url, { method, headers, body, signal }) => {
    const { request, agent } = url.protocol === "https:" ? secure : plain;
    const incoming = await new Promise<IncomingMessage>((resolve, reject) => {
      const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
      const all = { ...Object.fromEntries(headers), "accept-encoding": "identity", ...length };
      const given = { method, agent, headers: all, ...(signal ? { signal } : {}) };
      request(url, given, resolve).once("error", reject).end(body);
    });
    const { statusCode: status = 0, statusMessage: statusText = "" } = incoming;
    const answer = { status, statusText, headers: toHeaders(incoming) };
    const length = Number(incoming.headers["content-length"] ?? Number.NaN);
    if (EMPTY_STATUSES.includes(status)) {
      incoming.on("error", () => {}).resume();
      return new Response(null, answer);
    }
    const { "content-type": type = "", "content-encoding": encoding } = incoming.headers;
    // Others may be read as streams.
    if (length <= limit && encoding === undefined && type.startsWith("application/json"))
      return createReadResponse(await readText(incoming), answer);
    return new Response(Readable.toWeb(incoming) as ReadableStream, answer);
  };
}

/**
 * A response with a body that was read before: reading it from a stream of `fetch` costs more than the request. No subclass,
 * because Node loads all of `fetch` for its name.
 */
function createReadResponse(text: string, init: ResponseInit): Response {
  const json = async (): Promise<unknown> => JSON.parse(text);
  return Object.defineProperties(new Response(null, init), {
    text: { value: async () => text },
    json: { value: json },
  });
}

function readText(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  return new Promise((resolve, reject) => {
    incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
    incoming.once("error", reject);
    incoming.once("end", () =>
      resolve(
        Buffer.concat(chunks)
          .toString("utf8")
          .replace(/^\uFEFF/, ""),
      ),
    );
  });
}

function toHeaders({ headersDistinct }: IncomingMessage): Headers {
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(headersDistinct))
    for (const value of values) headers.append(name, value);
  return headers;
}
