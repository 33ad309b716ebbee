import { randomInt } from "node:crypto";
import { QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { ServerOffer } from "../manifests/offer.ts";
import { formatLaunch, type ProtocolEra, type ServerSpec } from "../server-spec.ts";
import type { ServerConnection } from "./connection.ts";
import type { ConnectionState, ConnectionStatus, RequestOptions, ServerRequest } from "./hub.ts";
import { type ConnectionPorts, openConnection } from "./open-connection.ts";
import type { Semaphore } from "./semaphore.ts";
import { SessionLostError, toAbortError, waitUnlessAborted, wrapServerError } from "./server-errors.ts";

export type StopReason = "asked" | "idle" | "closing" | "ended";

/** What is written in the ledger of a server's life. */
export type ServerEvent =
  | {
      readonly type: "server.started";
      readonly data: { server: string; launch: string; pid?: number; protocol: string; durationMs: number };
    }
  | { readonly type: "server.stopped"; readonly data: { server: string; reason: StopReason } }
  | { readonly type: "server.failed"; readonly data: { server: string; reason: string } };

export interface SupervisorPorts extends ConnectionPorts {
  readonly runtime: Runtime;
  /** How many may be starting at once. */
  readonly startSlots: Semaphore;
  readonly learned: (spec: ServerSpec, offer: ServerOffer) => Promise<void>;
  readonly remembered: (server: string) => ProtocolEra | undefined;
  readonly note: (event: ServerEvent) => void;
  readonly changed: (server: string) => void;
  readonly resourceUpdated: (server: string, uri: string) => void;
  readonly backoff: { readonly firstMs: number; readonly longestMs: number };
}

/** So often in a row it may end without having answered anything before it is left alone for a while. */
const MAX_USELESS_STARTS = 3;

/** Keeps one server: starts it when it is needed, once for all who need it, and stops it when nobody does. */
export class Supervisor {
  readonly spec: ServerSpec;
  readonly #ports: SupervisorPorts;
  /** What must have ended before it is started. */
  #after: Promise<unknown>;
  #isRetired = false;
  #state: ConnectionState = "idle";
  #connection: ServerConnection | undefined;
  /** Connections that nothing new is sent on, and that end with what is under way on them. */
  readonly #leaving = new Set<ServerConnection>();
  #starting: Promise<ServerConnection> | undefined;
  #stopping = new AbortController();
  #calls = 0;
  #called = 0;
  #failures = 0;
  #uselessStarts = 0;
  #problem: string | undefined;
  #retryAt: Date | undefined;
  #era: ProtocolEra | undefined;
  #idle: NodeJS.Timeout | undefined;
  /** Resources that somebody watches: again after every start, and as long as that is so it is not idle. */
  readonly #watched = new Set<string>();

  /** `after`: what must have ended before it may be started, as the same server with other settings. */
  constructor(spec: ServerSpec, ports: SupervisorPorts, after: Promise<unknown> = Promise.resolve()) {
    this.spec = spec;
    this.#ports = ports;
    this.#after = after;
  }

  status(): ConnectionStatus {
    const connection = this.#connection;
    const problem = this.#problem ?? connection?.problems.join("\n");
    return {
      server: this.spec.name,
      state: this.#state,
      ...(connection === undefined
        ? {}
        : {
            ...(connection.pid === undefined ? {} : { pid: connection.pid }),
            era: connection.era,
            protocolVersion: connection.protocolVersion,
          }),
      calls: this.#calls,
      called: this.#called,
      ...(problem === undefined || problem === "" ? {} : { problem }),
      ...(this.#retryAt === undefined ? {} : { retryAt: this.#retryAt }),
      noise: connection?.noise ?? 0,
    };
  }

  async connect(signal: AbortSignal | undefined, insist: boolean): Promise<ServerOffer> {
    const connection = await this.#reached(signal, insist);
    await waitUnlessAborted(connection.settled(), signal);
    this.#rest();
    return connection.offer;
  }

  async request(request: ServerRequest, options: RequestOptions): Promise<JsonObject> {
    this.#calls++;
    this.#called++;
    clearTimeout(this.#idle);
    try {
      return await this.#attempt(request, options, true);
    } finally {
      this.#calls--;
      this.#rest();
    }
  }

  /** Ends it. Whoever waits for it, or for an answer of it, is told; whoever comes meanwhile starts it when it has ended. */
  async stop(reason: StopReason): Promise<void> {
    const [stopping, starting] = [this.#stopping, this.#starting];
    this.#stopping = new AbortController();
    this.#starting = undefined;
    this.#problem = undefined;
    this.#retryAt = undefined;
    this.#failures = 0;
    stopping.abort(stoppedError(this.spec));
    const leaving = [...this.#leaving].map((connection) => connection.close());
    const ended = Promise.allSettled([this.#after, starting, this.#end(reason), ...leaving]).then(() => undefined);
    this.#after = ended;
    await ended;
    if (this.#isAway) this.#become("idle");
  }

  /** Ends it for good. */
  async retire(reason: StopReason): Promise<void> {
    this.#isRetired = true;
    await this.stop(reason);
  }

  /** Whatever was in the way of logging in is not any more. */
  clearLoginProblem(): void {
    if (this.#state !== "needs_login") return;
    this.#problem = undefined;
    this.#become("idle");
  }

  async #attempt(request: ServerRequest, options: RequestOptions, again: boolean): Promise<JsonObject> {
    const connection = await this.#reached(options.signal, false);
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
        // The server refused it unread, so that sending it once more does nothing twice.
        if (again) return this.#attempt(request, options, false);
      }
      if (thrown.code === "needs_login") {
        await this.#leave(connection);
        if (this.#isAway) {
          this.#problem = thrown.message;
          this.#become("needs_login");
        }
      } else if (thrown.code !== "server_failed") this.#uselessStarts = 0;
      throw thrown;
    }
  }

  #reached(signal: AbortSignal | undefined, asked: boolean): Promise<ServerConnection> {
    if (this.#isRetired) return Promise.reject(stoppedError(this.spec));
    if (this.#connection !== undefined) return Promise.resolve(this.#connection);
    const waitMs = (this.#retryAt?.getTime() ?? 0) - this.#ports.runtime.now().getTime();
    if (this.#starting === undefined && !asked && waitMs > 0) return Promise.reject(this.#waiting(waitMs));
    // A start goes on without whoever gave up waiting for it: others may wait too.
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
    const { runtime, startSlots: places, learned, remembered, note } = this.#ports;
    const stopped = this.#stopping.signal;
    this.#become("starting");
    try {
      await waitUnlessAborted(this.#after, stopped);
      return await places.run(stopped, async () => {
        const began = runtime.elapsed();
        const connection = await withStartTimeout(spec, stopped, (signal) =>
          openConnection(spec, this.#ports, {
            remembered: this.#era ?? remembered(spec.name),
            learned: (offer) => learned(spec, offer),
            signal,
          }),
        );
        if (stopped.aborted) {
          await connection.close();
          throw toAbortError(stopped);
        }
        this.#ready(connection);
        note({
          type: "server.started",
          data: {
            server: spec.name,
            launch: formatLaunch(spec.launch),
            ...(connection.pid === undefined ? {} : { pid: connection.pid }),
            protocol: connection.protocolVersion,
            durationMs: runtime.elapsed() - began,
          },
        });
        return connection;
      });
    } catch (thrown) {
      const failure = wrapServerError(thrown);
      // Whoever stopped it says what it is then.
      if (!stopped.aborted) this.#failed(failure);
      throw failure;
    }
  }

  #ready(connection: ServerConnection): void {
    this.#connection = connection;
    this.#era = connection.era;
    this.#failures = 0;
    this.#uselessStarts++;
    this.#problem = undefined;
    this.#retryAt = undefined;
    connection.onOffer = () => this.#ports.changed(this.spec.name);
    connection.onResourceUpdated = (uri) => this.#ports.resourceUpdated(this.spec.name, uri);
    for (const uri of this.#watched)
      void connection
        .request({ method: "resources/subscribe", params: { uri } }, {})
        .catch(() => this.#watched.delete(uri));
    void connection.ended.then(() => this.#endedByItself(connection));
    this.#become("ready");
    this.#rest();
  }

  async #endedByItself(connection: ServerConnection): Promise<void> {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    clearTimeout(this.#idle);
    const words = await connection.describeExit();
    const why = [...connection.problems, words].filter((part) => part !== "").join("; ");
    const problem = `server ${this.spec.name} ended by itself${why === "" ? "" : ` (${why})`}`;
    this.#ports.note({ type: "server.stopped", data: { server: this.spec.name, reason: "ended" } });
    // Somebody may have started it anew while its last words were read.
    if (!this.#isAway) return;
    if (this.#uselessStarts >= MAX_USELESS_STARTS) this.#failed(new QmError("server_failed", problem));
    else {
      this.#problem = problem;
      this.#become("idle");
    }
  }

  #failed(failure: QmError): void {
    const { note, runtime } = this.#ports;
    this.#problem = failure.message;
    note({ type: "server.failed", data: { server: this.spec.name, reason: failure.message } });
    if (failure.code === "needs_login") {
      this.#become("needs_login");
      return;
    }
    // What is wrong in the configuration does not mend by waiting, nor get worse by trying.
    if (failure.code !== "invalid_config") {
      this.#retryAt = new Date(runtime.now().getTime() + this.#waitMs());
      this.#failures++;
    }
    this.#become("failed");
  }

  /** Twice as long each time, and a different part of it each time, so that not everybody comes back at once. */
  #waitMs(): number {
    const { firstMs, longestMs } = this.#ports.backoff;
    const whole = Math.min(longestMs, firstMs * 2 ** Math.min(this.#failures, 20));
    return whole / 2 + randomInt(Math.max(1, Math.ceil(whole / 2)));
  }

  #waiting(waitMs: number): QmError {
    const seconds = Math.ceil(waitMs / 1000);
    return new QmError(
      "server_failed",
      `server ${this.spec.name} is not tried again for ${seconds} s, until ${this.#retryAt?.toISOString()}: ${this.#problem}`,
      { hint: `Mend what is wrong, and try at once with \`qm servers start ${this.spec.name}\`, or wait.` },
    );
  }

  async #end(reason: StopReason): Promise<void> {
    const connection = this.#connection;
    if (connection === undefined) return;
    this.#connection = undefined;
    clearTimeout(this.#idle);
    await connection.close();
    this.#ports.note({ type: "server.stopped", data: { server: this.spec.name, reason } });
  }

  /** Nothing new is sent on a connection that is of no use; what is under way on it goes on. */
  async #leave(connection: ServerConnection): Promise<void> {
    if (this.#connection === connection) {
      this.#connection = undefined;
      clearTimeout(this.#idle);
      this.#ports.note({ type: "server.stopped", data: { server: this.spec.name, reason: "ended" } });
    }
    this.#leaving.add(connection);
    void connection.ended.then(() => this.#leaving.delete(connection));
    await connection.closeWhenIdle();
  }

  /** Begins to count the time without a call. */
  #rest(): void {
    clearTimeout(this.#idle);
    if (this.#calls > 0 || this.#watched.size > 0 || this.#connection === undefined) return;
    if (this.spec.idleTimeoutMs === 0) return;
    this.#idle = setTimeout(() => void this.stop("idle"), this.spec.idleTimeoutMs);
    this.#idle.unref();
  }

  #become(state: ConnectionState): void {
    this.#state = state;
    this.#ports.changed(this.spec.name);
  }
}

function stoppedError({ name }: ServerSpec): QmError {
  return new QmError("server_failed", `server ${name} was stopped`, {
    hint: "If it is still configured, the next call starts it again.",
  });
}

/** Runs a start under a signal that is aborted with `stopped`, and when the server takes longer than it may. */
export async function withStartTimeout<T>(
  spec: ServerSpec,
  stopped: AbortSignal,
  start: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(startTimeoutError(spec)), spec.startTimeoutMs);
  try {
    return await start(AbortSignal.any([stopped, late.signal]));
  } finally {
    clearTimeout(timer);
  }
}

function startTimeoutError({ name, startTimeoutMs }: ServerSpec): QmError {
  return new QmError("server_failed", `server ${name} did not answer within ${startTimeoutMs} ms of its start`, {
    hint: "The first start of a package may take long. Raise `start_timeout_ms` of the server if it needs longer.",
  });
}
