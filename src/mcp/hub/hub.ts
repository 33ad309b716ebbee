import type { Dialogue } from "../../core/dialogue.ts";
import type { JsonObject } from "../../core/json.ts";
import type { TraceCarrier } from "../../core/tracing.ts";
import type { Offer } from "../manifest/offer.ts";
import type { Era, ServerSpec } from "../server-spec.ts";

/**
 * - `idle`: nothing runs; the next call starts it
 * - `starting`, `ready`
 * - `needs_login`: it answers, and wants somebody to log in
 * - `failed`: it could not be started or reached; tried again after `retryAt`, or when asked for
 */
export type ConnectionState = "idle" | "starting" | "ready" | "needs_login" | "failed";

export interface ConnectionStatus {
  readonly server: string;
  readonly state: ConnectionState;
  readonly pid?: number;
  readonly era?: Era;
  readonly protocolVersion?: string;
  /** Requests under way. */
  readonly calls: number;
  /** Requests since it was configured. */
  readonly called: number;
  /** What went wrong last, with the end of what it wrote to stderr. */
  readonly problem?: string;
  readonly retryAt?: Date;
  /** Lines on its stdout that were no messages. */
  readonly noise: number;
}

export interface ServerRequest {
  readonly method: string;
  readonly params: JsonObject;
}

export interface RequestOptions {
  readonly signal?: AbortSignal | undefined;
  /** A question of the server goes to the call it belongs to, and never to another owner's. Absent: nobody is asked. */
  readonly dialogue?: Dialogue | undefined;
  /** Asked when the server is there and what it offers is known, before anything is sent. A throw keeps it from being sent. */
  readonly before?: (() => Promise<void>) | undefined;
  /** What it is part of; the server is told. Absent: whatever the host is tracing. */
  readonly trace?: TraceCarrier | undefined;
}

/** Starts, speaks to and stops MCP servers. One connection a server, shared by all callers. */
export interface Hub {
  /** The servers there are from now on. What is the same stays connected; what is gone is stopped. */
  configure(specs: readonly ServerSpec[]): Promise<void>;
  status(server: string): ConnectionStatus;
  /**
   * Starts the server if need be and answers what it offers. `insist`: a person asks, so it is tried now, also when it has
   * failed a moment ago. Throws `server_failed`, `needs_login`, `cancelled`.
   */
  connect(server: string, signal?: AbortSignal, insist?: boolean): Promise<Offer>;
  /**
   * Sends a request, starting the server if need be. A JSON-RPC error is thrown as `action_failed` with
   * `details.mcp_code` and `details.mcp_data`. A server that dies meanwhile: `server_failed`; nothing is sent twice.
   */
  request(server: string, request: ServerRequest, options: RequestOptions): Promise<JsonObject>;
  /** Starts a server that is not configured, answers what it offers, and stops it: nothing of it is kept. */
  probe(spec: ServerSpec, signal?: AbortSignal): Promise<Offer>;
  /** Ends the process, or the connection. The next call starts it again. */
  stop(server: string): Promise<void>;
  /** Logs in to a remote server: hands over the URL for the browser, resolves when tokens are there. */
  login(server: string, show: (url: URL) => void | Promise<void>, signal?: AbortSignal): Promise<void>;
  logout(server: string): Promise<void>;
  /** Calls back when the state of a server has changed. */
  onChange(listener: (server: string) => void): () => void;
  /** Calls back when a server says that a resource has changed that was subscribed to. */
  onResourceUpdated(listener: (server: string, uri: string) => void): () => void;
  /** Loads the SDK now. Node remembers a failed import, so one while no file descriptor is left would fail for good. */
  prepare(): Promise<void>;
  /** Stops everything. */
  close(): Promise<void>;
}
