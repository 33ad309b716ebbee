import { hash } from "node:crypto";
import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import type { Quartermaster } from "../../app/quartermaster.ts";
import type { Caller } from "../../core/caller.ts";
import { isRecord } from "../../core/json.ts";
import { LruMap } from "../../core/lru-map.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { GatewayProfile } from "./gateway.ts";

/** A client names its session with this key in a request's `_meta`, or over HTTP with the header. */
export const SESSION_META_KEY = "quartermaster/session";
export const SESSION_HEADER = "quartermaster-session";

export interface ClientIdentity {
  /** The hash of the client's token. A client cannot name a session of another account. */
  readonly account: string;
  /** The client's own description, MCP's `clientInfo`. */
  readonly info: unknown;
  /** The name that the client gave its session. */
  readonly name: string | undefined;
}

export const isSessionName = (given: unknown): given is string =>
  typeof given === "string" && /^[A-Za-z0-9._-]{1,64}$/.test(given);

/** Throws a protocol error for a malformed session name. */
export function parseSessionName(given: unknown): string | undefined {
  if (given === undefined || given === null) return undefined;
  if (isSessionName(given)) return given;
  const message = `Invalid ${SESSION_META_KEY}: a session's name has 1 to 64 letters, digits, ".", "_" or "-"`;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

/** The caller of a client's requests. A client has the same `client` after a restart. */
export function createClientCaller(profile: GatewayProfile, { account, info, name }: ClientIdentity, session: string) {
  const { name: software, version } = isRecord(info) ? info : {};
  // The name replaces the description: a client that was updated keeps the session it names.
  const own = name === undefined ? ["described", software ?? null, version ?? null] : ["named", name];
  const client = hash("sha256", JSON.stringify([profile.name, account, ...own]), "hex").slice(0, 32);
  const base = `mcp:${profile.name}:${client.slice(0, 16)}`;
  return { actor: profile.actor, session: name === undefined ? session || base : `${base}:${name}`, client };
}

/** A dropped session is looked up in the ledger again. */
const KNOWN_LIMIT = 1000;

/** Gives clients without a connection a session, which ends when the client is idle, not when this process ends. */
export function createClientSessions(
  profile: GatewayProfile,
  runtime: Runtime,
  idleMs: number,
  ledger: Quartermaster["ledger"],
) {
  const known = new LruMap<string, { readonly session: Promise<string>; lastSeen: number }>(KNOWN_LIMIT);

  async function find(base: string, now: number): Promise<string> {
    const [last] = await ledger.read({ lastSessionOf: `${base}@`, limit: 1 });
    if (last !== undefined && now - Date.parse(last.at) < idleMs) return last.session;
    // With the time in the name, the last session by name is the newest.
    return `${base}@${now.toString(36).padStart(9, "0")}`;
  }

  function getCurrent(base: string): Promise<string> {
    const now = runtime.now().getTime();
    const before = known.get(base);
    if (before !== undefined && now - before.lastSeen < idleMs) {
      before.lastSeen = now;
      return before.session;
    }
    const session = find(base, now);
    known.set(base, { session, lastSeen: now });
    session.catch(() => known.delete(base));
    return session;
  }

  return {
    async resolveCaller(identity: ClientIdentity, traceparent: unknown): Promise<Caller> {
      const caller = createClientCaller(profile, identity, "");
      if (identity.name !== undefined) return caller;
      const trace = /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(String(traceparent ?? ""))?.[1];
      const session = trace === undefined ? await getCurrent(caller.session) : `${caller.session}:${trace}`;
      return { ...caller, session };
    },
  };
}
