import type { Notification, Request } from "@modelcontextprotocol/client";
import type { Abortable } from "../../core/abortable.ts";
import type { Dialogue } from "../../core/caller.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";
import type { SpanFacts, TraceCarrier } from "../../core/tracing.ts";
import { type McpSpan, type McpTelemetry, startMcpSpan } from "../../telemetry/mcp-span.ts";
import type { ServerOffer } from "../manifests/offer.ts";
import type { ProtocolEra, ServerSpec } from "../server-spec.ts";
import { openChangeStream, type WatchResource } from "./change-stream.ts";
import type { HubContext, RequestOptions, ServerRequest } from "./hub.ts";
import { type ListingLimits, listOffer } from "./list-offer.ts";
import type { ConnectedClient, OnOffer } from "./open-connection.ts";
import { buildParamHeaders, findParamHeaders, type ParamHeader } from "./param-headers.ts";
import { addMeta, createSenderMeta } from "./sdk-client.ts";
import {
  invalidResultError,
  SessionLostError,
  toAbortError,
  UnreachableError,
  waitUnlessAborted,
  withServerOutput,
} from "./server-errors.ts";
import { answerQuestion, type ServerCall, sendWithAnswers, toRefusal } from "./server-questions.ts";

/** List changes that come within this time are read with one listing. */
const GATHER_MS = 50;
/** Requests that a server may answer with a question (protocol 2026-07-28). */
const INTERACTIVE_METHODS = ["tools/call", "prompts/get", "resources/read"];
const NO_LISTS = { tools: [], resources: [], resourceTemplates: [], prompts: [] };
const MAY_HAVE_RUN = "It may have had an effect. Check before you call it again.";

export class ServerConnection {
  readonly era: ProtocolEra;
  readonly protocolVersion: string;
  /** Resolves when the connection is closed by either side. */
  readonly ended: Promise<void>;
  problems: readonly string[] = [];
  offer: ServerOffer;
  /** Called after each listing but the first. */
  onListed: () => void = () => undefined;
  onResourceUpdated: (uri: string) => void = () => undefined;
  readonly #spec: ServerSpec;
  readonly #link: ConnectedClient;
  readonly #limits: ListingLimits;
  readonly #telemetry: McpTelemetry;
  readonly #began: number;
  /** Describes us to a server of the modern era, in each message. */
  readonly #sender: JsonObject | undefined;
  readonly #onOffer: OnOffer;
  readonly #closed = new AbortController();
  #paramHeaders: ReadonlyMap<string, readonly ParamHeader[]> = new Map();
  #listing: Promise<void> | undefined;
  #gathering = false;
  #isListed = false;
  #isLeaving = false;
  #isClosing = false;
  #inProgress = 0;
  #requests = 0;
  #watchResource: WatchResource | undefined;

  constructor(spec: ServerSpec, context: HubContext, link: ConnectedClient, onOffer: OnOffer) {
    const { limits, tracer, runtime } = context;
    const { client, tap } = link;
    this.#spec = spec;
    this.#link = link;
    this.#limits = limits.listing;
    this.#telemetry = { tracer, elapsed: runtime.elapsed };
    this.#began = runtime.elapsed();
    this.#onOffer = onOffer;
    this.era = client.getProtocolEra() ?? "legacy";
    this.protocolVersion = client.getNegotiatedProtocolVersion() ?? "";
    this.#sender = this.era === "modern" ? createSenderMeta(this.protocolVersion, context.clientInfo) : undefined;
    const instructions = client.getInstructions();
    this.offer = {
      protocolVersion: this.protocolVersion,
      era: this.era,
      serverInfo: (client.getServerVersion() ?? {}) as JsonObject,
      capabilities: (client.getServerCapabilities() ?? {}) as JsonObject,
      ...(instructions === undefined ? {} : { instructions }),
      ...NO_LISTS,
    };
    this.ended = new Promise((resolve) => {
      client.onclose = () => {
        if (!this.#closed.signal.aborted) this.#recordSession();
        this.#closed.abort();
        resolve();
      };
      if (tap.ended) client.onclose();
    });
    client.fallbackRequestHandler = ({ method, params }: Request) =>
      answerQuestion(tap.currentCall, { method, params: (params ?? {}) as JsonObject }).catch((thrown: unknown) => {
        throw toRefusal(thrown);
      });
    client.fallbackNotificationHandler = async (notification) => this.#handleNotification(notification);
  }

  get pid(): number | undefined {
    return this.#link.wire.process?.pid;
  }

  get noise(): number {
    return this.#link.wire.process?.noise ?? 0;
  }

  async start(signal: AbortSignal): Promise<void> {
    await this.#list(signal);
    if (this.era !== "modern") return;
    const onListsChange = () => this.#listAgain();
    this.#watchResource = openChangeStream(
      this.#link.client,
      this.offer.capabilities,
      this.#closed.signal,
      onListsChange,
    );
  }

  /** Resolves when all list changes announced so far have been read. Undefined: there are none. */
  get listing(): Promise<void> | undefined {
    return this.#listing;
  }

  async request({ method, params }: ServerRequest, { signal, dialogue, before, trace }: RequestOptions) {
    const call: ServerCall = { owner: dialogue?.owner ?? Symbol("no owner"), dialogue };
    this.#inProgress++;
    try {
      if (signal?.aborted) throw toAbortError(signal);
      if (this.#listing !== undefined) await waitUnlessAborted(this.#listing, signal);
      if (this.#closed.signal.aborted) throw this.#endedError();
      await before?.();
      if (this.#watchResource !== undefined && /^resources\/(?:un)?subscribe$/.test(method)) {
        // In this era resources are watched on the change stream.
        this.#watchResource(String(params.uri), method === "resources/subscribe");
        return {};
      }
      const send = (sent: JsonObject) => this.#send(method, sent, signal, call, trace);
      if (!INTERACTIVE_METHODS.includes(method)) return await send(params);
      return await sendWithAnswers(send, params, { dialogue, server: this.#spec.name, signal });
    } finally {
      this.#inProgress--;
      if (this.#isLeaving) await this.closeWhenIdle();
    }
  }

  /** Closes now, or after the last request in progress. Does not wait for that. */
  async closeWhenIdle(): Promise<void> {
    this.#isLeaving = true;
    if (this.#inProgress === 0) await this.close();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#link.wire.end().catch(() => undefined);
  }

  describeExit(): Promise<string> {
    return this.#link.wire.describeExit(true);
  }

  async #send(
    method: string,
    params: JsonObject,
    signal: Abortable | undefined,
    call?: ServerCall,
    parent?: TraceCarrier,
  ): Promise<JsonObject> {
    const span = startMcpSpan(this.#telemetry, () => {
      const session = this.era === "legacy" ? this.#link.tap.sessionId : undefined;
      return { side: "client", method, params, connection: this.#facts, session, parent };
    });
    try {
      const result = await this.#exchange(method, params, signal, span, call);
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
    signal: Abortable | undefined,
    span: McpSpan,
    call?: ServerCall,
  ): Promise<JsonObject> {
    const { tap, wire } = this.#link;
    const dialogue = call?.dialogue;
    const sender = this.#sender;
    const progressToken = `progress-${++this.#requests}`;
    const onProgress = dialogue && ((params: Record<string, unknown>) => reportProgress(dialogue, params));
    const sent = addMeta(params, {
      sender,
      capabilities: dialogue?.capabilities ?? {},
      progressToken: dialogue && progressToken,
      trace: span.carrier(),
    });
    const declared = method === "tools/call" ? this.#paramHeaders.get(String(params.name)) : undefined;
    try {
      const result = await tap.request({ call, progressToken, onProgress }, method, sent, {
        signal,
        headers: declared && buildParamHeaders(declared, params.arguments),
        cancelsByClosing: this.era === "modern" && tap.hasPerRequestStream,
        meta: sender,
        onSent: span.sent,
        createLostError: () => {
          const message = `server ${this.#spec.name} lost the connection while it worked on this`;
          return new QmError("server_failed", message, { hint: MAY_HAVE_RUN });
        },
      });
      return readResult(this.#spec.name, this.era, result);
    } catch (thrown) {
      if (signal?.aborted) throw toAbortError(signal);
      if (this.#closed.signal.aborted) throw await this.#diedError();
      const failure = await wire.failure(thrown);
      if (failure.cause instanceof UnreachableError) this.#isLeaving = true;
      throw failure;
    }
  }

  async #list(signal: AbortSignal): Promise<void> {
    // Over HTTP, this era sends some arguments as headers too.
    const paramHeaders = this.era === "modern" && this.#spec.launch.kind === "http";
    const { lists, problems } = await listOffer({
      server: this.#spec.name,
      capabilities: this.offer.capabilities,
      ask: (method, params) => this.#send(method, params, signal),
      paramHeaders,
      limits: this.#limits,
      before: this.#isListed ? this.offer : undefined,
    });
    this.#isListed = true;
    this.offer = { ...this.offer, ...lists };
    this.problems = problems;
    this.#paramHeaders = new Map(
      paramHeaders ? lists.tools.map((tool) => [tool.name, listParamHeaders(tool.inputSchema)]) : [],
    );
    await this.#onOffer(this.offer);
  }

  get #facts(): SpanFacts {
    return { "mcp.protocol.version": this.protocolVersion, ...this.#link.wire.facts };
  }

  #recordSession(): void {
    if (this.era === "modern") return;
    const { tracer, elapsed } = this.#telemetry;
    const facts = { ...this.#facts, "error.type": this.#isClosing ? undefined : "server_failed" };
    tracer.took("mcp.client.session.duration", Math.max(0, elapsed() - this.#began) / 1000, facts);
  }

  /** Reads the lists once for all changes that come together. Later requests wait for it. */
  #listAgain(): void {
    if (this.#gathering) return;
    this.#gathering = true;
    const listing = (this.#listing ?? Promise.resolve()).then(async () => {
      await new Promise((resolve) => setTimeout(resolve, GATHER_MS));
      this.#gathering = false;
      if (this.#closed.signal.aborted) return;
      try {
        await this.#list(AbortSignal.any([this.#closed.signal, AbortSignal.timeout(this.#spec.startTimeoutMs)]));
        this.onListed();
      } catch (thrown) {
        // The current offer is unknown, so nothing may be called: the next call opens a new connection.
        this.problems = [`its lists could not be read again: ${getErrorMessage(thrown)}`];
        await this.close();
      }
    });
    this.#listing = listing;
    void listing.then(() => {
      if (this.#listing === listing) this.#listing = undefined;
    });
  }

  #handleNotification({ method, params }: Notification): void {
    if (/^notifications\/(?:tools|resources|prompts)\/list_changed$/.test(method)) this.#listAgain();
    if (!isRecord(params)) return;
    if (method === "notifications/resources/updated" && typeof params.uri === "string")
      this.onResourceUpdated(params.uri);
    if (method !== "notifications/message") return;
    const level = typeof params.level === "string" ? params.level : "info";
    const logger = typeof params.logger === "string" ? { logger: params.logger } : {};
    this.#link.tap.currentCall?.dialogue?.log({ level, ...logger, data: params.data });
  }

  #endedError(): QmError {
    const why = { hint: "Call it again: the call starts the server.", cause: new SessionLostError() };
    return new QmError("server_failed", `server ${this.#spec.name} has ended`, why);
  }

  async #diedError(): Promise<QmError> {
    const message = `server ${this.#spec.name} ended while it worked on this`;
    const ended = new QmError("server_failed", message, { hint: `${MAY_HAVE_RUN} The next call starts the server.` });
    const output = await this.describeExit();
    return output === "" ? ended : withServerOutput(ended, output);
  }
}

function listParamHeaders(inputSchema: JsonObject): readonly ParamHeader[] {
  const scan = findParamHeaders(inputSchema);
  return scan.ok ? scan.headers : [];
}

/** The result as it came, without its type. Only an unfinished one, which asks questions, keeps it. */
function readResult(server: string, era: ProtocolEra, result: unknown): JsonObject {
  if (!isRecord(result)) throw invalidResultError(server, "it is not an object");
  if (!("resultType" in result)) return result as JsonObject;
  const { resultType, ...rest } = result as JsonObject;
  if (era === "legacy" || resultType === undefined || resultType === "complete") return rest;
  const { inputRequests, requestState } = rest;
  if (resultType !== "input_required") throw invalidResultError(server, "its type is unknown");
  if (!isRecord(inputRequests) && typeof requestState !== "string")
    throw invalidResultError(server, "it asks for input, but does not say for which");
  return { ...rest, resultType };
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
