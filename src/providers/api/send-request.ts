import { QmError } from "../../core/errors.ts";
import type { BuiltRequest } from "./build-request.ts";

export interface ApiRequest extends BuiltRequest {
  readonly maxBytes: number;
  readonly maxRedirects: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface ApiResponse {
  readonly url: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly truncated: boolean;
}

/** Sends one request. With `maxRedirects: 0`, a redirect is a response like any other. */
export type SendRequest = (request: ApiRequest) => Promise<ApiResponse>;

/** Follows no redirect and reads at most `maxBytes`. Throws `server_failed` or the reason of the signal. */
export const sendWithFetch: SendRequest = async ({ url, method, headers, body, maxBytes, timeoutMs, signal }) => {
  const ended = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  try {
    const init = { method, headers: { ...headers }, redirect: "manual" as const, signal: ended };
    const response = await fetch(
      url,
      body === undefined ? init : { ...init, body: body as NonNullable<RequestInit["body"]> },
    );
    const { bytes, truncated } = await readBytes(response, maxBytes);
    return { url, status: response.status, headers: Object.fromEntries(response.headers), body: bytes, truncated };
  } catch (thrown) {
    if (signal.aborted) throw signal.reason;
    if (ended.aborted) throw new QmError("timed_out", "the API did not answer in time", { hint: "Try again later." });
    const cause = thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
    const code = (cause as NodeJS.ErrnoException | undefined)?.code;
    const why = typeof code === "string" ? ` (${code})` : "";
    throw new QmError("server_failed", `the API cannot be reached${why}`, { hint: "Try again later." });
  }
};

async function readBytes(response: Response, maxBytes: number) {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk.subarray(0, maxBytes - size));
    size += chunk.length;
    if (size > maxBytes) return { bytes: Buffer.concat(chunks), truncated: true };
  }
  return { bytes: Buffer.concat(chunks), truncated: false };
}
