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

/** A request in progress. It hangs on the request under `TRACKED`: symbols survive the SDK's copying and are not sent. */
export interface TrackedRequest {
  readonly method: string;
  call: ServerCall | undefined;
  readonly onSent?: (id: string | number) => void;
  isAbandoned?: boolean;
  /** The result as it came. The SDK gets a placeholder that its strict schemas accept. */
  result?: unknown;
  readonly progressToken: string;
  onProgress: ((params: Record<string, unknown>) => void) | undefined;
  readonly onLost: () => void;
}

/** More abandoned requests than this are not tracked one by one. */
const ABANDONED_LIMIT = 1000;
const UNKNOWN_CALL: ServerCall = { owner: Symbol("unknown owner"), dialogue: undefined };
export const TRACKED = Symbol("tracked request");
const CACHED = { ttlMs: 0, cacheScope: "private" };
/** Results that satisfy the SDK's schemas. The caller reads `TrackedRequest.result` instead. */
const PLACEHOLDERS: Readonly<Record<string, object>> = {
  "tools/call": { content: [] },
  "tools/list": { tools: [], ...CACHED },
  "resources/list": { resources: [], ...CACHED },
  "resources/templates/list": { resourceTemplates: [], ...CACHED },
  "resources/read": { contents: [], ...CACHED },
  "prompts/list": { prompts: [], ...CACHED },
  "prompts/get": { messages: [] },
  "completion/complete": { completion: { values: [] } },
};

/**
 * Wraps the real transport. It keeps results unchanged, knows which request's stream brought a server's question, and
 * stays open when the server refuses a client, so that the next handshake can use the same connection.
 */
export class TrackingTransport implements Transport {
  onclose: (() => void) | undefined;
  onerror: ((error: Error) => void) | undefined;
  onmessage: ((message: JSONRPCMessage, extra?: MessageExtraInfo) => void) | undefined;
  /** Whether the server answered anything. A process that never did has crashed rather than refused. */
  answered = false;
  ended = false;
  readonly #inner: Transport;
  readonly #streams = new AsyncLocalStorage<TrackedRequest | undefined>();
  readonly #askedCalls = new AsyncLocalStorage<ServerCall | undefined>();
  readonly #sent = new Map<number, TrackedRequest>();
  #started: Promise<void> | undefined;
  #isHeld = true;
  #hasUntracked = false;

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

  /** The call that the message being handled belongs to, as of its arrival. */
  get currentCall(): ServerCall | undefined {
    return this.#askedCalls.getStore();
  }

  get #calls(): ReadonlySet<ServerCall> {
    const calls = [...this.#sent.values()].flatMap(({ call }) => call ?? []);
    return new Set(this.#hasUntracked ? [UNKNOWN_CALL, ...calls] : calls);
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
      if (sent !== undefined && this.#sent.get(Number(id)) === sent) sent.onLost();
    };
    await this.#streams.run(sent, () => this.#inner.send(message, { ...options, onRequestStreamEnd }));
  }

  /** Drops a request that is over, unless it was abandoned. */
  forget(sent: TrackedRequest): void {
    if (sent.isAbandoned === true) return;
    for (const [id, other] of this.#sent) if (other === sent) this.#sent.delete(id);
  }

  /** The caller gave up. The request stays tracked, without a dialogue: the server may still ask about it. */
  abandon(sent: TrackedRequest): void {
    sent.isAbandoned = true;
    sent.call = sent.call && { owner: sent.call.owner, dialogue: undefined };
    sent.onProgress = undefined;
    const abandoned = [...this.#sent].filter(([, { isAbandoned }]) => isAbandoned === true);
    const [oldest] = abandoned;
    if (oldest === undefined || abandoned.length <= ABANDONED_LIMIT) return;
    this.#sent.delete(oldest[0]);
    this.#hasUntracked = true;
  }

  /** Removes the last client's handlers, so that another client can use the connection. */
  detachClient(): void {
    this.onmessage = undefined;
    this.onerror = undefined;
    this.onclose = undefined;
  }

  /** Makes `close` end the connection from now on. */
  settle(): void {
    this.#isHeld = false;
  }

  async close(): Promise<void> {
    if (this.#isHeld) this.onclose?.();
    else await this.end();
  }

  async end(): Promise<void> {
    await this.#inner.close();
  }

  #receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    // The SDK handles messages later, when an answer that came next may have ended the call. So the call of a message
    // is found now, and progress is reported now.
    if (!("method" in message)) this.onmessage?.(this.#replaceResult(message), extra);
    else if (message.method === "notifications/progress") this.#reportProgress(message.params);
    else
      this.#askedCalls.run(findAskedCall(this.#calls, this.#streams.getStore()), () =>
        this.onmessage?.(message, extra),
      );
  }

  #reportProgress(params: Record<string, unknown> | undefined): void {
    for (const { progressToken, onProgress } of this.#sent.values())
      if (progressToken === params?.progressToken) onProgress?.(params);
  }

  #replaceResult(answer: JSONRPCResponse): JSONRPCResponse {
    this.answered = true;
    const sent = this.#sent.get(Number(answer.id));
    this.#sent.delete(Number(answer.id));
    if (sent === undefined || !("result" in answer)) return answer;
    const { result } = answer;
    sent.result = result;
    // The SDK interprets results of other types than `complete` itself.
    if (isRecord(result) && result.resultType !== undefined && result.resultType !== "complete") return answer;
    return { ...answer, result: { resultType: "complete", ...PLACEHOLDERS[sent.method] } };
  }
}
