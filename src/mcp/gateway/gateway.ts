import type { Readable, Writable } from "node:stream";
import type { Hono } from "hono";
import type { Quartermaster } from "../../app/quartermaster.ts";
import type { Caller } from "../../core/caller.ts";
import type { UnstampedEvent } from "../../core/events.ts";
import type { JsonObject } from "../../core/json.ts";
import type { ActionName } from "../../core/names.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { SurfaceKind } from "../../core/surface-choice.ts";

/** The protocol with a handshake and a session (up to 2025-11-25), and the one in which every request stands alone. */
export type GatewayEra = "legacy" | "modern";

/** One kind of client: whom it acts as, and what it is shown. */
export interface GatewayProfile {
  readonly name: string;
  readonly actor: string;
  /** The tools its clients are shown. Absent: as the actor says, or with `passThrough` none but those of the servers. */
  readonly surface?: SurfaceKind;
  /** Names or globs of servers whose tools are shown by their own names, as if a client were connected to them. */
  readonly passThrough: readonly string[];
  readonly resources: boolean;
  readonly prompts: boolean;
}

/** A server's tool that is shown as it is. Calling it is invoking `action`. */
export interface PassThroughTool {
  readonly server: string;
  readonly action: ActionName;
  /** What the server calls it. */
  readonly name: string;
  /** As the server gave it. */
  readonly definition: JsonObject;
}

/**
 * What the servers behind us offer, cut to what a caller may see. Using any of it is an action like every other:
 * `mcp__<server>__resources/read`, `prompts/get`, `completion/complete`, `resources/subscribe`, `resources/unsubscribe`.
 */
export interface Upstream {
  tools(caller: Caller, servers: readonly string[]): readonly PassThroughTool[];
  resources(caller: Caller): readonly { readonly server: string; readonly resource: JsonObject }[];
  templates(caller: Caller): readonly { readonly server: string; readonly template: JsonObject }[];
  prompts(caller: Caller): readonly { readonly server: string; readonly prompt: JsonObject }[];
  onChange(listener: (what: "tools" | "resources" | "prompts") => void): () => void;
  onResourceUpdated(listener: (server: string, uri: string) => void): () => void;
}

export interface GatewayOptions {
  readonly quartermaster: Pick<Quartermaster, "surface" | "invoke" | "onChange" | "ledger">;
  /** Absent: there are no servers behind us. */
  readonly upstream?: Upstream;
  readonly runtime: Runtime;
  /** How we call ourselves to clients. */
  readonly info: { readonly name: string; readonly version: string };
  /** What the clients of a profile are told about it all. */
  readonly instructions?: (profile: GatewayProfile) => string | undefined;
  /** Told what went wrong on the wire. Holds no token and no argument. */
  readonly onProblem: (problem: string) => void;
  /** Writes down on whose behalf something happened: that a client has come. */
  readonly note?: (caller: Caller, event: UnstampedEvent) => void;
  readonly limits?: Partial<GatewayLimits>;
}

export interface GatewayLimits {
  /** Of a request over HTTP, and of a line on stdin. */
  readonly bodyBytes: number;
  /** How many connections a listener takes. More are refused. */
  readonly connections: number;
  /** How many requests of one principal a listener answers at a time, streams included. */
  readonly requestsEach: number;
  readonly sessions: number;
  /** How many sessions of the legacy era one principal may have open. */
  readonly sessionsEach: number;
  /** A session without calls, streams and requests for so long is closed; the next request begins another one. */
  readonly sessionIdleMs: number;
  /** How long a question waits for its answer; the call is cancelled then. */
  readonly questionMs: number;
  /** How many calls may wait for an answer, and how many of one client's. */
  readonly heldCalls: number;
  readonly heldCallsEach: number;
}

export interface StdioOptions {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly profile: GatewayProfile;
  readonly signal: AbortSignal;
}

/** What whoever took the request in knows of where it came from. */
export interface GatewayRequestContext {
  /** Who asks, however that was proved: what one began, nobody else goes on with. */
  readonly principal: string;
  /** The request's body, where it was read and parsed already. */
  readonly body?: unknown;
}

export interface ListenOptions {
  readonly host: string;
  readonly port: number;
  /** Names that clients may call us by, beside those of this machine; with a port, only with that one. */
  readonly allowedHosts: readonly string[];
  /** Web pages that may call, as `https://example.com`. */
  readonly allowedOrigins: readonly string[];
  /** Finds the profile of a token, as `createTokenAuthorizer` does. Undefined: the token is not known. */
  authorize(token: string): GatewayProfile | undefined;
  /** Routes beside /mcp and /health. Host and origin are checked before they are called. */
  readonly other?: Hono;
  /** Where people reach us, as `https://example.com`. Pages that `other` answers with may call it from there. */
  readonly publicOrigin?: string | undefined;
}

export interface GatewayListener {
  /** Where clients connect. */
  readonly url: string;
  /** Takes nothing new, ends what is open, and resolves when all is closed. */
  close(): Promise<void>;
}

/** Shows a quartermaster to MCP clients. It decides nothing: every call goes through the counter's one door. */
export interface Gateway {
  /** Serves one client. Resolves when stdin has ended or the signal was aborted. */
  serveStdio(options: StdioOptions): Promise<void>;
  /** Answers one request to the MCP endpoint. Whoever calls has checked host, origin and token. */
  fetch(request: Request, profile: GatewayProfile, remote: GatewayRequestContext): Promise<Response>;
  /** Serves any number of clients, all checks included. */
  listen(options: ListenOptions): Promise<GatewayListener>;
  /** Ends every session and every call. */
  close(): Promise<void>;
}

export const GATEWAY_LIMITS: GatewayLimits = {
  bodyBytes: 4 * 1024 * 1024,
  connections: 1024,
  requestsEach: 256,
  sessions: 1024,
  sessionsEach: 64,
  sessionIdleMs: 30 * 60_000,
  questionMs: 10 * 60_000,
  heldCalls: 256,
  heldCallsEach: 32,
};
