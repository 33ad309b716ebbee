import { AsyncLocalStorage } from "node:async_hooks";
import type {
  JSONRPCMessage,
  JSONRPCResponse,
  MessageExtraInfo,
  Transport,
  TransportSendOptions,
} from "@modelcontextprotocol/client";
import type { Abortable } from "../../core/abortable.ts";
import { onAbort } from "../../core/async.ts";
import { Bag } from "../../core/bag.ts";
import type { JsonObject } from "../../core/json.ts";
import { RpcError } from "./server-errors.ts";
import { findAskedCall, type ServerCall } from "./server-questions.ts";

/** A request in progress. */
export interface TrackedRequest {
  call: ServerCall | undefined;
  readonly progressToken: string;
  onProgress: ((params: Record<string, unknown>) => void) | undefined;
}

interface SentRequest {
  readonly id: number;
  readonly tracked: TrackedRequest;
  /** The caller gave up. The request stays tracked, without a dialogue: the server may still ask about it. */
  isAbandoned: boolean;
  settle(answer: JSONRPCResponse | Error): void;
}

export interface SendOptions {
  readonly signal: Abortable | undefined;
  readonly headers: Record<string, string> | undefined;
  /** Whether the server sees a closed stream as a cancelled request. Otherwise it gets a notification. */
  readonly cancelsByClosing: boolean;
  /** `_meta` of the notification that cancels the request. */
  readonly meta: JsonObject | undefined;
  readonly onSent: (id: number) => void;
  readonly createLostError: () => Error;
}

/** More abandoned requests than this are not tracked one by one. */
const ABANDONED_LIMIT = 1000;
const UNKNOWN_CALL: ServerCall = { owner: Symbol("unknown owner"), dialogue: undefined };
/** The SDK counts the ids of its own requests, such as `initialize`, from 0. */
const FIRST_ID = 1_000_000;

/**
 * Wraps the real transport. It sends requests and returns their results unchanged and unchecked, knows which request's stream
 * brought a server's question, and stays open when the server refuses a client, so that the next handshake can use the same
 * connection. The SDK's client handles everything else: the handshake, notifications, questions and subscriptions.
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
  readonly #sent = new Bag<SentRequest>();
  #nextId = FIRST_ID;
  #started: Promise<void> | undefined;
  #isHeld = true;
  #hasUntracked = false;

  constructor(inner: Transport) {
    this.#inner = inner;
    inner.onmessage = (message: JSONRPCMessage, extra?: MessageExtraInfo) => this.#receive(message, extra);
    inner.onerror = (error) => this.onerror?.(error);
    inner.onclose = () => {
      this.ended = true;
      for (const { settle } of this.#sent) settle(new Error("the connection was closed"));
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
    const calls = [...this.#sent].flatMap(({ tracked }) => tracked.call ?? []);
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

  /** For the SDK's client. Its messages belong to no request of ours. */
  send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    const send = () => this.#inner.send(message, options);
    return this.hasPerRequestStream ? this.#streams.run(undefined, send) : send();
  }

  /** Answers the result as it came. Rejects with an `RpcError`, with an error of the transport, or with the signal's reason. */
  request(tracked: TrackedRequest, method: string, params: JsonObject, options: SendOptions): Promise<unknown> {
    const { signal, onSent, cancelsByClosing, headers } = options;
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const stop = cancelsByClosing ? new AbortController() : undefined;
      const settle = (answer: JSONRPCResponse | Error): void => {
        if (answer instanceof Error && sent.isAbandoned) return;
        this.#sent.delete(sent);
        stopListening();
        if (answer instanceof Error) reject(answer);
        else if ("result" in answer) resolve(answer.result);
        else reject(new RpcError(answer.error));
      };
      const sent: SentRequest = { id, tracked, isAbandoned: false, settle };
      this.#sent.add(sent);
      const stopListening = onAbort(signal, (reason) => {
        reject(reason);
        this.#abandon(sent);
        if (stop !== undefined) stop.abort();
        else this.#cancel(id, options);
      });
      onSent(id);
      const message: JSONRPCMessage = { jsonrpc: "2.0", id, method, params };
      const send = (more: TransportSendOptions) => this.#inner.send(message, more).catch(settle);
      if (!this.hasPerRequestStream) return void send({});
      const onRequestStreamEnd = () => {
        if (this.#sent.has(sent)) settle(options.createLostError());
      };
      const requestSignal = stop?.signal;
      const more = { onRequestStreamEnd, ...(headers && { headers }), ...(requestSignal && { requestSignal }) };
      void this.#streams.run(tracked, () => send(more));
    });
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

  #abandon(sent: SentRequest): void {
    const { tracked } = sent;
    sent.isAbandoned = true;
    tracked.call = tracked.call && { owner: tracked.call.owner, dialogue: undefined };
    tracked.onProgress = undefined;
    const abandoned = [...this.#sent].filter(({ isAbandoned }) => isAbandoned);
    if (abandoned.length <= ABANDONED_LIMIT) return;
    this.#sent.delete(abandoned.reduce((oldest, each) => (each.id < oldest.id ? each : oldest)));
    this.#hasUntracked = true;
  }

  /** The reason is sent to the server, so it says only this. */
  #cancel(requestId: number, { meta }: SendOptions): void {
    const params = { requestId, reason: "cancelled", ...(meta && { _meta: meta }) };
    this.#inner
      .send({ jsonrpc: "2.0", method: "notifications/cancelled", params })
      .catch((error) => this.onerror?.(error));
  }

  #receive(message: JSONRPCMessage, extra?: MessageExtraInfo): void {
    // The SDK handles messages later, when an answer that came next may have ended the call. So the call of a message
    // is found now, and progress is reported now.
    if (!("method" in message)) this.#receiveAnswer(message, extra);
    else if (message.method === "notifications/progress") this.#reportProgress(message.params);
    else
      this.#askedCalls.run(findAskedCall(this.#calls, this.#streams.getStore()), () =>
        this.onmessage?.(message, extra),
      );
  }

  #receiveAnswer(answer: JSONRPCResponse, extra?: MessageExtraInfo): void {
    this.answered = true;
    const id = Number(answer.id);
    const sent = this.#sent.find((each) => each.id === id);
    if (sent === undefined) this.onmessage?.(answer, extra);
    else sent.settle(answer);
  }

  #reportProgress(params: Record<string, unknown> | undefined): void {
    for (const { tracked } of this.#sent)
      if (tracked.progressToken === params?.progressToken) tracked.onProgress?.(params);
  }
}
