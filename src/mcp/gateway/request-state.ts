import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";
import { canonicalJson } from "../../core/json.ts";

/** Which question of which call an answer is for. */
export interface HeldRound {
  readonly call: string;
  readonly round: number;
  /** Milliseconds since the epoch. */
  readonly expires: number;
}

/** What a state is good for: this client, this request, and no other. */
export interface Binding {
  readonly principal: string;
  /** Which client of the principal. */
  readonly client: string | undefined;
  readonly profile: string;
  readonly method: string;
  readonly params: unknown;
}

export interface RequestStates {
  sign(round: HeldRound, binding: Binding): string;
  /** Undefined where it was not signed here, for another request or client, or is too old. */
  read(state: string, binding: Binding, now: number): HeldRound | undefined;
}

const STATE_LIMIT = 1024;

/**
 * A client hands these back, so they are taken for hostile: each is signed with a key that lives as long as this process
 * and covers whom and what it is for. That it is used once is kept by whoever holds the call.
 */
export function createRequestStates(key: Buffer = randomBytes(32)): RequestStates {
  const macOf = (payload: string, { principal, client, profile, method, params }: Binding) =>
    createHmac("sha256", key)
      .update(
        JSON.stringify([payload, principal, client, profile, method, hash("sha256", canonicalJson(params), "hex")]),
      )
      .digest();

  return {
    sign({ call, round, expires }, binding) {
      const payload = Buffer.from(JSON.stringify([call, round, expires])).toString("base64url");
      return `${payload}.${macOf(payload, binding).toString("base64url")}`;
    },
    read(state, binding, now) {
      const [payload = "", mac = "", ...rest] = state.length <= STATE_LIMIT ? state.split(".") : [];
      const given = Buffer.from(mac, "base64url");
      const expected = macOf(payload, binding);
      if (rest.length > 0 || given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
      const round = parsed(payload);
      return round.expires > now ? round : undefined;
    },
  };
}

/** Only what we signed gets here. */
function parsed(payload: string): HeldRound {
  const [call, round, expires] = JSON.parse(Buffer.from(payload, "base64url").toString()) as [string, number, number];
  return { call, round, expires };
}
