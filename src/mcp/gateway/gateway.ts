import type { Readable, Writable } from "node:stream";
import type { Hono } from "hono";
import type { Quartermaster } from "../../app/quartermaster.ts";
import type { Caller } from "../../core/caller.ts";
import type { UnstampedEvent } from "../../core/events.ts";
import type { JsonObject } from "../../core/json.ts";
import type { ActionName } from "../../core/names.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { SurfaceKind } from "../../core/surface-choice.ts";
import type { Tracer } from "../../core/tracing.ts";

/** Legacy: the protocol up to 2025-11-25, with a handshake and sessions. Modern: every request stands alone. */
export type GatewayEra = "legacy" | "modern";

/** The actor that a kind of client acts as, and the tools it sees. */
export interface GatewayProfile {
  readonly name: string;
  readonly actor: string;
  /** Absent: the actor's surface, or with `passThrough` only the tools of those servers. */
  readonly surface?: SurfaceKind;
  /** Names or globs of servers whose tools are listed by their own names, as if the client were connected to them. */
  readonly passThrough: readonly string[];
  readonly resources: boolean;
  readonly prompts: boolean;
}

/** A server's tool that is passed through. Calling it invokes `action`. */
export interface PassThroughTool {
  readonly server: string;
  readonly action: ActionName;
  /** The server's name for it. */
  readonly name: string;
  readonly definition: JsonObject;
}

/** The part of the servers' offers that the caller may see. Using it is an action, such as `mcp__<server>__resources/read`. */
export interface Upstream {
  tools(caller: Caller, servers: readonly string[]): readonly PassThroughTool[];
  resources(caller: Caller): readonly { readonly server: string; readonly resource: JsonObject }[];
  templates(caller: Caller): readonly { readonly server: string; readonly template: JsonObject }[];
  prompts(caller: Caller): readonly { readonly server: string; readonly prompt: JsonObject }[];
  onChange(listener: (what: "tools" | "resources" | "prompts") => void): () => void;
  onResourceUpdated(listener: (server: string, uri: string) => void): () => void;
}

export interface GatewayOptions {
  readonly quartermaster: Pick<Quartermaster, "surface" | "prompt" | "invoke" | "onChange" | "ledger" | "skills">;
  readonly upstream?: Upstream;
  readonly runtime: Runtime;
  readonly tracer?: Tracer;
  readonly info: { readonly name: string; readonly version: string };
  /** Receives transport errors as text, without tokens and arguments. */
  readonly onProblem: (problem: string) => void;
  readonly note?: (caller: Caller, event: UnstampedEvent) => void;
  readonly limits?: Partial<GatewayLimits>;
}

export type GatewayLimits = Readonly<typeof GATEWAY_LIMITS>;

export interface StdioOptions {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly profile: GatewayProfile;
  readonly signal: AbortSignal;
}

export interface GatewayRequestContext {
  /** The authenticated client. Another principal cannot use its sessions and held calls. */
  readonly principal: string;
  /** The parsed body. Absent: it is read from the request. */
  readonly body?: unknown;
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  /** Host names that clients may use beside this machine's own. A name with a port allows only that port. */
  readonly allowedHosts: readonly string[];
  /** Origins of web pages that may call, such as `https://example.com`. */
  readonly allowedOrigins: readonly string[];
  /** Finds the profile of a token, as `createTokenAuthorizer` does. Undefined: the token is not known. */
  authorize(token: string): GatewayProfile | undefined;
  /** Routes beside /mcp and /health. Host and origin are checked before they are called. */
  readonly other?: Hono;
  /** The origin that people use to reach us. Pages of `other` may call `other` from there. */
  readonly publicOrigin?: string | undefined;
}

export interface GatewayListener {
  readonly url: string;
  /** Accepts nothing new, ends open connections, and resolves when all are closed. */
  close(): Promise<void>;
}

/** Serves a quartermaster to MCP clients. It decides nothing itself: every call goes through `invoke`. */
export interface Gateway {
  /** Serves one client. Resolves when stdin has ended or the signal was aborted. */
  serveStdio(options: StdioOptions): Promise<void>;
  /** Answers one request to the MCP endpoint. The caller has checked host, origin and token. */
  fetch(request: Request, profile: GatewayProfile, context: GatewayRequestContext): Promise<Response>;
  /** Serves any number of clients over HTTP, with all checks. */
  listen(options: ListenOptions): Promise<GatewayListener>;
  /** Ends every session and every call. */
  close(): Promise<void>;
}

export const GATEWAY_LIMITS = {
  /** The size of a request over HTTP, and of a line on stdin. */
  bodyBytes: 4 * 1024 * 1024,
  connections: 1024,
  /** Open requests of one principal at one listener, streams included. */
  requestsEach: 256,
  sessions: 1024,
  /** Open legacy sessions of one principal. */
  sessionsEach: 64,
  /** A session is closed after this time without calls, streams and requests. */
  sessionIdleMs: 30 * 60_000,
  /** A call is cancelled if its question is not answered in this time. */
  questionMs: 10 * 60_000,
  /** Calls that wait for an answer, in all and of one principal. */
  heldCalls: 256,
  heldCallsEach: 32,
};
