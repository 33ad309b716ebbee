import { hash } from "node:crypto";
import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import type { Caller } from "../../core/caller.ts";
import { isRecord } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { GatewayProfile } from "./gateway.ts";

/** A client names its session with this key in a request's `_meta`, or over HTTP with the header. */
export const SESSION_META_KEY = "quartermaster/session";
export const SESSION_HEADER = "quartermaster-session";

/** Who a client is. */
export interface ClientIdentity {
  /** What it proved itself with: the hash of its token. One account cannot name a session of another. */
  readonly account: string;
  /** How it describes itself, as MCP's `clientInfo`. */
  readonly info: unknown;
  /** The session's name, where the client gave one. */
  readonly name: string | undefined;
}

/** The name of a session as a client gave it. Throws a protocol error where it is malformed. */
export function parseSessionName(given: unknown): string | undefined {
  if (given === undefined || given === null) return undefined;
  if (typeof given === "string" && /^[A-Za-z0-9._-]{1,64}$/.test(given)) return given;
  throw new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    `Invalid ${SESSION_META_KEY}: a session's name has 1 to 64 letters, digits, ".", "_" or "-"`,
  );
}

/** The caller behind a client. Two with the same `client` are the same client, also after a restart. */
export function createClientCaller(
  profile: GatewayProfile,
  { account, info, name }: ClientIdentity,
  session: string,
): Caller {
  const { name: software, version } = isRecord(info) ? info : {};
  // A name stands in for the description: software that was updated goes on with the session it names.
  const own = name === undefined ? ["described", software ?? null, version ?? null] : ["named", name];
  const client = hash("sha256", JSON.stringify([profile.name, account, ...own]), "hex").slice(0, 32);
  const base = `mcp:${profile.name}:${client.slice(0, 16)}`;
  return { actor: profile.actor, session: name === undefined ? session || base : `${base}:${name}`, client };
}

/** Sessions of clients that have no connection: derived from who they are, and ended when they are idle. */
export interface ClientSessions {
  resolveCaller(facts: ClientIdentity, traceparent: unknown): Promise<Caller>;
}

export interface ClientSessionsOptions {
  readonly profile: GatewayProfile;
  readonly runtime: Runtime;
  readonly idleMs: number;
  /** The last event of the last session, by name, that begins so: sessions outlive this process. */
  lastEvent(prefix: string): Promise<{ readonly session: string; readonly at: string } | undefined>;
}

/** Only a cache: the session of a client that was dropped from it is looked up again. */
const KNOWN_LIMIT = 1000;

export function createClientSessions({ profile, runtime, idleMs, lastEvent }: ClientSessionsOptions): ClientSessions {
  const known = new Map<string, { session: Promise<string>; lastSeen: number }>();

  async function find(base: string): Promise<string> {
    const now = runtime.now().getTime();
    const last = await lastEvent(`${base}@`);
    if (last !== undefined && now - Date.parse(last.at) < idleMs) return last.session;
    // The beginning, so that the last session by name is the newest.
    return `${base}@${now.toString(36).padStart(9, "0")}`;
  }

  function current(base: string): Promise<string> {
    const now = runtime.now().getTime();
    const before = known.get(base);
    const one =
      before !== undefined && now - before.lastSeen < idleMs ? before : { session: find(base), lastSeen: now };
    one.lastSeen = now;
    known.delete(base);
    known.set(base, one);
    const [oldest] = known.keys();
    if (known.size > KNOWN_LIMIT && oldest !== undefined) known.delete(oldest);
    one.session.catch(() => known.delete(base));
    return one.session;
  }

  return {
    async resolveCaller(facts, traceparent) {
      const caller = createClientCaller(profile, facts, "");
      if (facts.name !== undefined) return caller;
      const trace = /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(String(traceparent ?? ""))?.[1];
      const session = trace === undefined ? await current(caller.session) : `${caller.session}:${trace}`;
      return { ...caller, session };
    },
  };
}
