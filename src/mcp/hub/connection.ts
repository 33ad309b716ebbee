import type { Client, Notification, Request } from "@modelcontextprotocol/client";
import type { Dialogue } from "../../core/caller.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";
import type { SpanFacts, TraceCarrier } from "../../core/tracing.ts";
import { type McpSpan, type McpTelemetry, startMcpSpan } from "../../telemetry/mcp-span.ts";
import type { ServerOffer } from "../manifests/offer.ts";
import type { ProtocolEra, ServerSpec } from "../server-spec.ts";
import { type ChangeStream, openChangeStream } from "./change-stream.ts";
import type { RequestOptions, ServerRequest } from "./hub.ts";
import { type ListingLimits, listOffer } from "./list-offer.ts";
import { buildParamHeaders, findParamHeaders, type ParamHeader } from "./param-headers.ts";
import { addMeta, anyResultSchema, FOREVER_MS } from "./sdk-client.ts";
import {
  SessionLostError,
  toAbortError,
  UnreachableError,
  waitUnlessAborted,
  withServerOutput,
} from "./server-errors.ts";
import {
  answerQuestion,
  QuestionRefusedError,
  type ServerCall,
  sendWithAnswers,
  toQuestionError,
} from "./server-questions.ts";
import type { ServerTransport } from "./server-transport.ts";
import { TRACKED, type TrackedRequest, type TrackingTransport } from "./tracking-transport.ts";

/** How long changes are gathered before the lists are read again. */
const GATHER_MS = 50;
/** A request that a server may answer with a question (protocol 2026-07-28). */
const INTERACTIVE_METHODS = ["tools/call", "prompts/get", "resources/read"];

/** A server that has been reached and knows us. */
export class ServerConnection {
  readonly era: ProtocolEra;
  readonly protocolVersion: string;
  /** Resolves when it is over, whoever ended it. */
  readonly ended: Promise<void>;
  /** What was left out of the offer, and why. */
  problems: readonly string[] = [];
  offer: ServerOffer;
  /** Told after each further listing. */
  onOffer: () => void = () => undefined;
  onResourceUpdated: (uri: string) => void = () => undefined;
  readonly #spec: ServerSpec;
  readonly #client: Client;
  readonly #tap: TrackingTransport;
  readonly #wire: ServerTransport;
  readonly #limits: ListingLimits;
  readonly #telemetry: McpTelemetry;
  readonly #began: number;
  readonly #learned: (offer: ServerOffer) => Promise<void>;
  readonly #over = new AbortController();
  #paramHeaders: ReadonlyMap<string, readonly ParamHeader[]> = new Map();
  #upToDate: Promise<void> = Promise.resolve();
  #gathering = false;
  #isListed = false;
  #isLeaving = false;
  #isClosing = false;
  #underWay = 0;
  #requests = 0;
  #changes: ChangeStream | undefined;

  constructor(
    spec: ServerSpec,
    client: Client,
    tap: TrackingTransport,
    wire: ServerTransport,
    limits: ListingLimits,
    telemetry: McpTelemetry,
    learned: (offer: ServerOffer) => Promise<void>,
  ) {
    this.#spec = spec;
    this.#client = client;
    this.#tap = tap;
    this.#wire = wire;
    this.#limits = limits;
    this.#telemetry = telemetry;
    this.#began = telemetry.elapsed();
    this.#learned = learned;
    this.era = client.getProtocolEra() ?? "legacy";
    this.protocolVersion = client.getNegotiatedProtocolVersion() ?? "";
    const instructions = client.getInstructions();
    this.offer = {
      protocolVersion: this.protocolVersion,
      era: this.era,
      serverInfo: (client.getServerVersion() ?? {}) as JsonObject,
      capabilities: (client.getServerCapabilities() ?? {}) as JsonObject,
      ...(instructions === undefined ? {} : { instructions }),
      tools: [],
      resources: [],
      resourceTemplates: [],
      prompts: [],
    };
    this.ended = new Promise((resolve) => {
      client.onclose = () => {
        if (!this.#over.signal.aborted) this.#tellSession();
        this.#over.abort();
        resolve();
      };
      if (tap.ended) client.onclose();
    });
    client.fallbackRequestHandler = (request) => this.#answer(request);
    client.fallbackNotificationHandler = async (notification) => this.#hear(notification);
  }

  get pid(): number | undefined {
    return this.#wire.pid;
  }

  get noise(): number {
    return this.#wire.noise;
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#list(signal);
    if (this.era === "modern")
      this.#changes = openChangeStream(this.#client, this.offer.capabilities, this.#over.signal, () => this.#changed());
  }

  /** Resolves when everything that the server has announced until now has been listed and learned. */
  settled(): Promise<void> {
    return this.#upToDate;
  }

  async request(
    { method, params }: ServerRequest,
    { signal, dialogue, before, trace }: RequestOptions,
  ): Promise<JsonObject> {
    const call: ServerCall = { owner: dialogue?.owner ?? Symbol("nobody"), dialogue };
    const stop = new AbortController();
    const onAbort = () => stop.abort(signal && toAbortError(signal));
    if (signal?.aborted) onAbort();
    signal?.addEventListener("abort", onAbort, { once: true });
    this.#underWay++;
    try {
      await waitUnlessAborted(this.#upToDate, stop.signal);
      if (this.#over.signal.aborted) throw this.#endedUnasked();
      await before?.();
      if (this.#changes !== undefined && /^resources\/(?:un)?subscribe$/.test(method)) {
        // Of this era, resources are watched on the stream of changes.
        this.#changes.watch(String(params.uri), method === "resources/subscribe");
        return {};
      }
      const send = (sent: JsonObject) => this.#send(method, sent, call, stop.signal, trace);
      return INTERACTIVE_METHODS.includes(method)
        ? await waitUnlessAborted(sendWithAnswers(send, params, { dialogue, server: this.#spec.name }), stop.signal)
        : await send(params);
    } finally {
      signal?.removeEventListener("abort", onAbort);
      this.#underWay--;
      if (this.#isLeaving) await this.closeWhenIdle();
    }
  }

  /** Ends it when nothing is under way on it any more. Where something is, that is not waited for. */
  async closeWhenIdle(): Promise<void> {
    this.#isLeaving = true;
    if (this.#underWay === 0) await this.close();
  }

  /** Ends the process, or the connection. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#wire.end().catch(() => undefined);
  }

  /** How it ended, once it has. */
  describeExit(): Promise<string> {
    return this.#wire.describeExit(true);
  }

  /** Sends one request, and tells those who trace of it. */
  async #send(
    method: string,
    params: JsonObject,
    call: ServerCall | undefined,
    signal: AbortSignal,
    parent?: TraceCarrier,
  ): Promise<JsonObject> {
    const session = this.era === "legacy" ? this.#tap.sessionId : undefined;
    const connection = this.#facts;
    const span = startMcpSpan(this.#telemetry, { side: "client", method, params, connection, session, parent });
    try {
      const result = await this.#exchange(method, params, call, signal, span);
      span.answered(result);
      return result;
    } catch (thrown) {
      span.failed(toErrorCode(thrown));
      throw thrown;
    }
  }

  async #exchange(
    method: string,
    params: JsonObject,
    call: ServerCall | undefined,
    signal: AbortSignal,
    span: McpSpan,
  ): Promise<JsonObject> {
    let lose: (reason: QmError) => void = () => undefined;
    const lost = new Promise<never>((_, reject) => {
      lose = reject;
    });
    const dialogue = call?.dialogue;
    const sent: TrackedRequest = {
      method,
      call,
      onSent: span.sent,
      progressToken: `progress-${++this.#requests}`,
      onProgress: dialogue && ((params) => reportProgress(dialogue, params)),
      lost: () => {
        this.#tap.abandon(sent);
        lose(this.#brokeOff());
      },
    };
    // The reason goes to the server, so it says no more than that.
    const cancel = new AbortController();
    const onAbort = () => {
      this.#tap.abandon(sent);
      cancel.abort("cancelled");
    };
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    const request = {
      method,
      params: addMeta(params, {
        era: this.era,
        capabilities: dialogue?.capabilities ?? {},
        progressToken: dialogue && sent.progressToken,
        trace: span.carrier(),
      }),
      [TRACKED]: sent,
    };
    try {
      const answered = this.#client.request(request, anyResultSchema, {
        signal: cancel.signal,
        timeout: FOREVER_MS,
        allowInputRequired: true,
        headers: this.#headersOf(method, params),
      });
      const result = (await Promise.race([answered, lost])) as JsonObject;
      if (result.resultType === "input_required") return result;
      const { resultType, ...rest } = sent.result as JsonObject;
      return rest;
    } catch (thrown) {
      if (signal.aborted) throw toAbortError(signal);
      if (this.#over.signal.aborted) throw await this.#failed();
      const failure = await this.#wire.failure(thrown);
      if (failure.cause instanceof UnreachableError) this.#isLeaving = true;
      throw failure;
    } finally {
      cancel.abort("cancelled");
      signal.removeEventListener("abort", onAbort);
      this.#tap.forget(sent);
    }
  }

  #headersOf(method: string, params: JsonObject): Record<string, string> {
    const declared = method === "tools/call" ? this.#paramHeaders.get(String(params.name)) : undefined;
    return declared === undefined ? {} : buildParamHeaders(declared, params.arguments);
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { lists, problems } = await listOffer({
      server: this.#spec.name,
      capabilities: this.offer.capabilities,
      ask: (method, params) => this.#send(method, params, undefined, signal),
      paramHeaders: this.#mirrors,
      limits: this.#limits,
      before: this.#isListed ? this.offer : undefined,
    });
    this.#isListed = true;
    this.offer = { ...this.offer, ...lists };
    this.problems = problems;
    this.#paramHeaders = new Map(
      this.#mirrors ? lists.tools.map((tool) => [tool.name, listParamHeaders(tool.inputSchema)]) : [],
    );
    await this.#learned(this.offer);
  }

  get #facts(): SpanFacts {
    return { "mcp.protocol.version": this.protocolVersion, ...this.#wire.facts };
  }

  /** Of the protocol with sessions alone: in the other one there are none. */
  #tellSession(): void {
    const { tracer, elapsed } = this.#telemetry;
    if (this.era === "modern") return;
    const facts = { ...this.#facts, "error.type": this.#isClosing ? undefined : "server_failed" };
    tracer.took("mcp.client.session.duration", Math.max(0, elapsed() - this.#began) / 1000, facts);
  }

  get #mirrors(): boolean {
    return this.era === "modern" && this.#spec.launch.kind === "http";
  }

  /** Changes that come together are listed once; requests that come after them wait for that. */
  #changed(): void {
    if (this.#gathering) return;
    this.#gathering = true;
    this.#upToDate = this.#upToDate.then(async () => {
      await new Promise((resolve) => setTimeout(resolve, GATHER_MS));
      this.#gathering = false;
      if (this.#over.signal.aborted) return;
      try {
        await this.#list(AbortSignal.any([this.#over.signal, AbortSignal.timeout(this.#spec.startTimeoutMs)]));
        this.onOffer();
      } catch (thrown) {
        // What it offers now is not known, so nothing may be asked of it: the next call begins anew.
        this.problems = [`its lists could not be read again: ${getErrorMessage(thrown)}`];
        await this.close();
      }
    });
  }

  async #answer({ method, params }: Request): Promise<JsonObject> {
    try {
      return await answerQuestion(this.#tap.currentCall, { method, params: (params ?? {}) as JsonObject });
    } catch (thrown) {
      const { code, message } = toQuestionError(thrown);
      throw new QuestionRefusedError(code, message);
    }
  }

  #hear({ method, params }: Notification): void {
    if (/^notifications\/(?:tools|resources|prompts)\/list_changed$/.test(method)) this.#changed();
    if (!isRecord(params)) return;
    if (method === "notifications/resources/updated" && typeof params.uri === "string")
      this.onResourceUpdated(params.uri);
    if (method !== "notifications/message") return;
    const { level, logger, data } = params;
    this.#tap.currentCall?.dialogue?.log({
      level: typeof level === "string" ? level : "info",
      ...(typeof logger === "string" ? { logger } : {}),
      data,
    });
  }

  #endedUnasked(): QmError {
    return new QmError("server_failed", `server ${this.#spec.name} has ended`, {
      hint: "Call it again: it is started again then.",
      cause: new SessionLostError(),
    });
  }

  #brokeOff(): QmError {
    return new QmError("server_failed", `server ${this.#spec.name} broke off while it worked on this`, {
      hint: "It may have had an effect. Look before you call it again.",
    });
  }

  async #failed(): Promise<QmError> {
    const words = await this.describeExit();
    const ended = new QmError("server_failed", `server ${this.#spec.name} ended while it worked on this`, {
      hint: "It may have had an effect. Look before you call it again; it is started again then.",
    });
    return words === "" ? ended : withServerOutput(ended, words);
  }
}

function listParamHeaders(inputSchema: JsonObject): readonly ParamHeader[] {
  const scan = findParamHeaders(inputSchema);
  return scan.ok ? scan.headers : [];
}

function toErrorCode(thrown: unknown): number | string {
  if (!(thrown instanceof QmError)) return "_OTHER";
  const { mcp_code: code } = thrown.details;
  return typeof code === "number" ? code : thrown.code;
}

function reportProgress(dialogue: Dialogue, { progress, total, message }: Record<string, unknown>): void {
  if (typeof progress !== "number") return;
  dialogue.progress({
    progress,
    ...(typeof total === "number" ? { total } : {}),
    ...(typeof message === "string" ? { message } : {}),
  });
}
