import { AsyncLocalStorage } from "node:async_hooks";
import type {
  JSONRPCMessage,
  JSONRPCResponse,
  MessageExtraInfo,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/client";
import { isRecord } from "../../core/json.ts";
import { findAskedCall, type ServerCall } from "./server-questions.ts";

/** A request on its way, hung on the request object under `SENT`: symbols survive the SDK's copying and are never sent. */
export interface TrackedRequest {
  readonly method: string;
  /** Whose questions the server may ask meanwhile. */
  call: ServerCall | undefined;
  /** Told under which id it goes out. */
  readonly onSent?: (id: string | number) => void;
  isAbandoned?: boolean;
  /** As it came. The SDK is handed a stand-in that its strict schemas accept. */
  result?: unknown;
  /** Under which the server says how far it is. */
  readonly progressToken: string;
  onProgress: ((params: Record<string, unknown>) => void) | undefined;
  /** The stream that would have brought the answer has ended without it. */
  readonly lost: () => void;
}

/** So many requests that were given up are known by their ids; of more it is only known that there are some. */
const ABANDONED_LIMIT = 1000;
const UNKNOWN_CALL: ServerCall = { owner: Symbol("somebody"), dialogue: undefined };

export const TRACKED = Symbol("sent");

/** What the SDK's schemas demand of a result; whoever asked reads `Sent.result` instead. */
const PLACEHOLDERS: Readonly<Record<string, object>> = {
  "tools/call": { content: [] },
  "tools/list": { tools: [], ttlMs: 0, cacheScope: "private" },
  "resources/list": { resources: [], ttlMs: 0, cacheScope: "private" },
  "resources/templates/list": { resourceTemplates: [], ttlMs: 0, cacheScope: "private" },
  "resources/read": { contents: [], ttlMs: 0, cacheScope: "private" },
  "prompts/list": { prompts: [], ttlMs: 0, cacheScope: "private" },
  "prompts/get": { messages: [] },
  "completion/complete": { completion: { values: [] } },
};

/**
 * A transport around the real one, so that results come through untouched, a question of a server is known by the
 * stream that brought it, and a connection outlives a client that was refused: the next era is tried on the same one.
 */
export class TrackingTransport implements Transport {
  onclose: (() => void) | undefined;
  onerror: ((error: Error) => void) | undefined;
  onmessage: ((message: JSONRPCMessage, extra?: MessageExtraInfo) => void) | undefined;
  /** Whether the other side has answered anything at all: a process that never did has crashed, not refused. */
  answered = false;
  ended = false;
  readonly #inner: Transport;
  readonly #streams = new AsyncLocalStorage<TrackedRequest | undefined>();
  readonly #askers = new AsyncLocalStorage<ServerCall | undefined>();
  readonly #sent = new Map<number, TrackedRequest>();
  #started: Promise<void> | undefined;
  #held = true;
  #hasUncounted = false;

  constructor(inner: Transport) {
    this.#inner = inner;
    inner.onmessage = (message: JSONRPCMessage, extra?: MessageExtraInfo) => this.#receive(message, extra);
    inner.onerror = (error) => this.onerror?.(error);
    inner.onclose = () => {
      this.ended = true;
      this.onclose?.();
    };
  }

  get sessionId(): string | undefined {
    return this.#inner.sessionId;
  }

  get hasPerRequestStream(): boolean {
    return this.#inner.hasPerRequestStream === true;
  }

  /** Whose call the message belongs to that is being handled, as things stood when it came. */
  get currentCall(): ServerCall | undefined {
    return this.#askers.getStore();
  }

  /** What the server may be working on: what it was sent and has not answered. */
  get #calls(): ReadonlySet<ServerCall> {
    const calls = [...this.#sent.values()].flatMap(({ call }) => call ?? []);
    return new Set(this.#hasUncounted ? [UNKNOWN_CALL, ...calls] : calls);
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion?.(version);
  }

  setSupportedProtocolVersions(versions: string[]): void {
    this.#inner.setSupportedProtocolVersions?.(versions);
  }

  start(): Promise<void> {
    this.#started ??= this.#inner.start();
    return this.#started;
  }

  async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    const sent = (message as { readonly [TRACKED]?: TrackedRequest })[TRACKED];
    const id = "method" in message && "id" in message ? message.id : undefined;
    if (sent !== undefined && id !== undefined) {
      this.#sent.set(Number(id), sent);
      sent.onSent?.(id);
    }
    if (!this.hasPerRequestStream) return this.#inner.send(message, options);
    const onRequestStreamEnd = () => {
      options?.onRequestStreamEnd?.();
      if (sent !== undefined && this.#sent.get(Number(id)) === sent) sent.lost();
    };
    await this.#streams.run(sent, () => this.#inner.send(message, { ...options, onRequestStreamEnd }));
  }

  /** The request is over. */
  forget(sent: TrackedRequest): void {
    if (sent.isAbandoned === true) return;
    for (const [id, other] of this.#sent) if (other === sent) this.#sent.delete(id);
  }

  /**
   * Nobody waits for the answer any more, and nobody can be asked. Until it comes the server may be at it all the same,
   * so that what it asks on a channel that all share may be about this.
   */
  abandon(sent: TrackedRequest): void {
    sent.isAbandoned = true;
    sent.call = sent.call && { owner: sent.call.owner, dialogue: undefined };
    sent.onProgress = undefined;
    const abandoned = [...this.#sent].filter(([, { isAbandoned }]) => isAbandoned === true);
    const [oldest] = abandoned;
    if (oldest === undefined || abandoned.length <= ABANDONED_LIMIT) return;
    this.#sent.delete(oldest[0]);
    this.#hasUncounted = true;
  }

  /** Lets the next client have the connection, free of what the last one hung on it. */
  detachClient(): void {
    this.onmessage = undefined;
    this.onerror = undefined;
    this.onclose = undefined;
  }

  /** From now on `close` closes. */
  settle(): void {
    this.#held = false;
  }

  async close(): Promise<void> {
    if (this.#held) this.onclose?.();
    else await this.end();
  }

  async end(): Promise<void> {
    await this.#inner.close();
  }

  #receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    if ("method" in message && message.method === "notifications/progress") this.#tellProgress(message.params);
    else if ("method" in message)
      // The SDK handles it a moment later, and then the answer that came with it has been there first.
      this.#askers.run(findAskedCall(this.#calls, this.#streams.getStore()), () => this.onmessage?.(message, extra));
    else this.onmessage?.(this.#prepared(message), extra);
  }

  /** At once, for the same reason. */
  #tellProgress(params: Record<string, unknown> | undefined): void {
    for (const { progressToken, onProgress } of this.#sent.values())
      if (progressToken === params?.progressToken) onProgress?.(params);
  }

  #prepared(answer: JSONRPCResponse): JSONRPCResponse {
    this.answered = true;
    const sent = this.#sent.get(Number(answer.id));
    this.#sent.delete(Number(answer.id));
    if (sent === undefined || !("result" in answer)) return answer;
    sent.result = answer.result;
    return { ...answer, result: buildPlaceholder(sent.method, answer.result) };
  }
}

/** Results of another kind than `complete` go through as they are: what they mean is the SDK's to say. */
function buildPlaceholder(method: string, result: unknown): { [key: string]: unknown } {
  if (isRecord(result) && result.resultType !== undefined && result.resultType !== "complete") return result;
  return { resultType: "complete", ...PLACEHOLDERS[method] };
}
