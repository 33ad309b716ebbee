import { randomInt } from "node:crypto";
import type { Abortable } from "../../core/abortable.ts";
import { QmError } from "../../core/errors.ts";
import type { UnstampedEvent } from "../../core/events.ts";
import { type JsonObject, omitUndefined } from "../../core/json.ts";
import type { ServerOffer } from "../manifests/offer.ts";
import { formatLaunch, type ProtocolEra, type ServerSpec } from "../server-spec.ts";
import type { ServerConnection } from "./connection.ts";
import type { ConnectionState, ConnectionStatus, HubContext, RequestOptions, ServerRequest } from "./hub.ts";
import { SessionLostError, toAbortError, waitUnlessAborted, wrapServerError } from "./server-errors.ts";

export type StopReason = "asked" | "idle" | "closing" | "ended";
export type ServerEvent = UnstampedEvent<"server.started" | "server.stopped" | "server.failed">;

/** After this many starts in a row without one answered request, the server is left alone for a while. */
const MAX_USELESS_STARTS = 3;

/** Runs one server: starts it once for all callers that need it, and stops it when it is idle. */
export class Supervisor {
  readonly spec: ServerSpec;
  readonly #context: HubContext;
  #previousEnd: Promise<unknown>;
  #isRetired = false;
  #state: ConnectionState = "idle";
  #connection: ServerConnection | undefined;
  /** Connections that get no new requests and close after their last one. */
  readonly #leaving = new Set<ServerConnection>();
  #starting: Promise<ServerConnection> | undefined;
  #stopping = new AbortController();
  #calls = 0;
  #called = 0;
  /** Requests and connections that callers asked for. */
  #uses = 0;
  #failures = 0;
  #uselessStarts = 0;
  #problem: string | undefined;
  #retryAt: Date | undefined;
  #era: ProtocolEra | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  #lastUsed = 0;
  /** Subscribed resources. They are subscribed again after every start and keep the server from being idle. */
  readonly #watched = new Set<string>();

  /** `previousEnd` settles when the same server with its former settings has ended; it starts only after that. */
  constructor(spec: ServerSpec, context: HubContext, previousEnd: Promise<unknown> = Promise.resolve()) {
    this.spec = spec;
    this.#context = context;
    this.#previousEnd = previousEnd;
  }

  status(): ConnectionStatus {
    const { pid, era, protocolVersion, noise = 0, problems } = this.#connection ?? {};
    return omitUndefined({
      server: this.spec.name,
      state: this.#state,
      pid,
      era,
      protocolVersion,
      calls: this.#calls,
      called: this.#called,
      problem: (this.#problem ?? problems?.join("\n")) || undefined,
      retryAt: this.#retryAt,
      noise,
    });
  }

  /**
   * Reads what the server offers. If it is started for that and no caller uses it meanwhile, it is stopped again, also
   * when the signal ends the wait.
   */
  async learn(signal: Abortable | undefined, insist: boolean): Promise<ServerOffer> {
    const uses = this.#isAway ? this.#uses + 1 : undefined;
    try {
      const offer = await this.connect(signal, insist);
      if (this.#uses === uses) await this.stop("idle");
      return offer;
    } catch (thrown) {
      // Not after a failed start: a stop would clear its problem and the wait before the next start.
      if (this.#uses === uses && !this.#isAway) void this.stop("idle");
      throw thrown;
    }
  }

  /** Whether `connect` would have nothing to wait for. */
  get isConnected(): boolean {
    return this.#connection !== undefined && this.#connection.listing === undefined && !this.#isRetired;
  }

  async connect(signal: Abortable | undefined, insist: boolean): Promise<ServerOffer> {
    this.#uses++;
    const connection = await this.#getConnection(signal, insist);
    if (connection.listing !== undefined) await waitUnlessAborted(connection.listing, signal);
    this.#startIdleTimer();
    return connection.offer;
  }

  async request(request: ServerRequest, options: RequestOptions): Promise<JsonObject> {
    this.#calls++;
    this.#called++;
    this.#uses++;
    try {
      return await this.#attempt(request, options, true);
    } finally {
      this.#calls--;
      this.#startIdleTimer();
    }
  }

  /** Ends the connection. Waiting callers get an error; a caller that comes meanwhile starts the server after the end. */
  async stop(reason: StopReason): Promise<void> {
    const [stopping, starting] = [this.#stopping, this.#starting];
    this.#stopping = new AbortController();
    this.#starting = undefined;
    this.#problem = undefined;
    this.#retryAt = undefined;
    this.#failures = 0;
    stopping.abort(stoppedError(this.spec));
    const leaving = [...this.#leaving].map((connection) => connection.close());
    const ended = Promise.allSettled([this.#previousEnd, starting, this.#close(reason), ...leaving]);
    // Without the results: each would hold those of the stop before it.
    this.#previousEnd = ended.then(() => undefined);
    await ended;
    if (this.#isAway) this.#setState("idle");
  }

  async retire(reason: StopReason): Promise<void> {
    this.#isRetired = true;
    await this.stop(reason);
  }

  clearLoginProblem(): void {
    if (this.#state !== "needs_login") return;
    this.#problem = undefined;
    this.#setState("idle");
  }

  async #attempt(request: ServerRequest, options: RequestOptions, mayRetry: boolean): Promise<JsonObject> {
    const connection = await this.#getConnection(options.signal, false);
    try {
      const result = await connection.request(request, options);
      this.#uselessStarts = 0;
      if (request.method === "resources/subscribe") this.#watched.add(String(request.params.uri));
      if (request.method === "resources/unsubscribe") this.#watched.delete(String(request.params.uri));
      return result;
    } catch (thrown) {
      if (!(thrown instanceof QmError)) throw thrown;
      if (thrown.cause instanceof SessionLostError) {
        await this.#leave(connection);
        // The server refused the request unread, so that sending it again does nothing twice.
        if (mayRetry) return this.#attempt(request, options, false);
      }
      if (thrown.code === "needs_login") {
        await this.#leave(connection);
        if (this.#isAway) {
          this.#problem = thrown.message;
          this.#setState("needs_login");
        }
      } else if (thrown.code !== "server_failed") this.#uselessStarts = 0;
      throw thrown;
    }
  }

  #getConnection(signal: Abortable | undefined, insist: boolean): Promise<ServerConnection> {
    if (this.#isRetired) return Promise.reject(stoppedError(this.spec));
    if (this.#connection !== undefined) return Promise.resolve(this.#connection);
    const waitMs = (this.#retryAt?.getTime() ?? 0) - this.#context.runtime.now().getTime();
    if (this.#starting === undefined && !insist && waitMs > 0) return Promise.reject(this.#backoffError(waitMs));
    // The start goes on when this caller gives up: others may wait for it too.
    return waitUnlessAborted(this.#starting ?? this.#begin(), signal);
  }

  #begin(): Promise<ServerConnection> {
    const starting = this.#start().finally(() => {
      if (this.#starting === starting) this.#starting = undefined;
    });
    starting.catch(() => undefined);
    this.#starting = starting;
    return starting;
  }

  get #isAway(): boolean {
    return this.#connection === undefined && this.#starting === undefined;
  }

  async #start(): Promise<ServerConnection> {
    const { spec } = this;
    const { runtime, startSlots, onOffer, getKnownEra, note } = this.#context;
    const stopped = this.#stopping.signal;
    this.#setState("starting");
    try {
      await waitUnlessAborted(this.#previousEnd, stopped);
      return await startSlots.run(stopped, async () => {
        const began = runtime.elapsed();
        // Not before: it needs much of Node that a start without servers does not.
        const { openConnection } = await import("./open-connection.ts");
        const connection = await openConnection(spec, this.#context, {
          knownEra: this.#era ?? getKnownEra?.(spec.name),
          onOffer: (offer) => onOffer(spec, offer),
          stopped,
        });
        if (stopped.aborted) {
          await connection.close();
          throw toAbortError(stopped);
        }
        this.#setReady(connection);
        const { pid, protocolVersion: protocol } = connection;
        const durationMs = runtime.elapsed() - began;
        const launch = formatLaunch(spec.launch);
        note({ type: "server.started", data: omitUndefined({ server: spec.name, launch, pid, protocol, durationMs }) });
        return connection;
      });
    } catch (thrown) {
      const failure = wrapServerError(thrown);
      // `stop` sets the state itself.
      if (!stopped.aborted) this.#setFailed(failure);
      throw failure;
    }
  }

  #setReady(connection: ServerConnection): void {
    const { name } = this.spec;
    this.#connection = connection;
    this.#era = connection.era;
    this.#failures = 0;
    this.#uselessStarts++;
    this.#problem = undefined;
    this.#retryAt = undefined;
    connection.onListed = () => this.#context.onChange(name);
    connection.onResourceUpdated = (uri) => this.#context.onResourceUpdated(name, uri);
    for (const uri of this.#watched)
      void connection
        .request({ method: "resources/subscribe", params: { uri } }, {})
        .catch(() => this.#watched.delete(uri));
    void connection.ended.then(() => this.#handleExit(connection));
    this.#setState("ready");
    this.#startIdleTimer();
  }

  async #handleExit(connection: ServerConnection): Promise<void> {
    if (!this.#detach(connection)) return;
    const output = await connection.describeExit();
    const why = [...connection.problems, output].filter((part) => part !== "").join("; ");
    const problem = `server ${this.spec.name} ended by itself${why === "" ? "" : ` (${why})`}`;
    this.#noteStopped("ended");
    // Another caller may have started it again while its output was read.
    if (!this.#isAway) return;
    if (this.#uselessStarts >= MAX_USELESS_STARTS) this.#setFailed(new QmError("server_failed", problem));
    else {
      this.#problem = problem;
      this.#setState("idle");
    }
  }

  #setFailed({ code, message }: QmError): void {
    this.#problem = message;
    this.#context.note({ type: "server.failed", data: { server: this.spec.name, reason: message } });
    // Waiting does not fix a configuration, and trying again does no harm.
    if (code !== "invalid_config" && code !== "needs_login") {
      this.#retryAt = new Date(this.#context.runtime.now().getTime() + this.#backoffMs());
      this.#failures++;
    }
    this.#setState(code === "needs_login" ? "needs_login" : "failed");
  }

  /** Doubles each time, with jitter, so that not all servers are tried again at once. */
  #backoffMs(): number {
    const { firstMs, longestMs } = this.#context.limits.backoff;
    const ms = Math.min(longestMs, firstMs * 2 ** Math.min(this.#failures, 20));
    return ms / 2 + randomInt(Math.max(1, Math.ceil(ms / 2)));
  }

  #backoffError(waitMs: number): QmError {
    const { name } = this.spec;
    const when = `for ${Math.ceil(waitMs / 1000)} s, until ${this.#retryAt?.toISOString()}`;
    const hint = `Wait, or let a person fix the problem. Run {qm servers start ${name}} to try at once.`;
    return new QmError("server_failed", `server ${name} is not tried again ${when}: ${this.#problem}`, { hint });
  }

  async #close(reason: StopReason): Promise<void> {
    const connection = this.#connection;
    if (connection === undefined) return;
    this.#detach(connection);
    await connection.close();
    this.#noteStopped(reason);
  }

  /** Sends nothing new on the connection. It closes when its requests in progress have ended. */
  async #leave(connection: ServerConnection): Promise<void> {
    if (this.#detach(connection)) this.#noteStopped("ended");
    this.#leaving.add(connection);
    void connection.ended.then(() => this.#leaving.delete(connection));
    await connection.closeWhenIdle();
  }

  #detach(connection: ServerConnection): boolean {
    if (this.#connection !== connection) return false;
    this.#connection = undefined;
    clearTimeout(this.#idleTimer);
    this.#idleTimer = undefined;
    return true;
  }

  #noteStopped(reason: StopReason): void {
    this.#context.note({ type: "server.stopped", data: { server: this.spec.name, reason } });
  }

  /** Stops the server when it was not used for a while. One timer runs on: a new one for each call would cost more. */
  #startIdleTimer(): void {
    const { idleTimeoutMs } = this.spec;
    this.#lastUsed = this.#context.runtime.elapsed();
    if (this.#idleTimer !== undefined || this.#connection === undefined || idleTimeoutMs === 0) return;
    const check = (): void => {
      this.#idleTimer = undefined;
      if (this.#connection === undefined) return;
      const isUsed = this.#calls > 0 || this.#watched.size > 0;
      const left = isUsed ? idleTimeoutMs : this.#lastUsed + idleTimeoutMs - this.#context.runtime.elapsed();
      if (left > 0) this.#idleTimer = setTimeout(check, Math.ceil(left)).unref();
      else void this.stop("idle");
    };
    this.#idleTimer = setTimeout(check, idleTimeoutMs).unref();
  }

  #setState(state: ConnectionState): void {
    this.#state = state;
    this.#context.onChange(this.spec.name);
  }
}

function stoppedError({ name }: ServerSpec): QmError {
  const hint = "If it is still configured, the next call starts it again.";
  return new QmError("server_failed", `server ${name} was stopped`, { hint });
}
