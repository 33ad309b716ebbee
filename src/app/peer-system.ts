import type { RunDelegatedTurn } from "../actor/delegated-turn.ts";
import type { ActorEnvelope, AnswerPart } from "../actor/envelope.ts";
import type { CallContext, Readiness } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import type { Model } from "../core/model.ts";
import { actionName } from "../core/names.ts";
import { didYouMean } from "../core/nearest.ts";
import type { Policy } from "../policy/policy.ts";
import type { PeerCard } from "../providers/peer/agent-card.ts";
import type { PeerResult } from "../providers/peer/peer-answer.ts";
import type { PeerEndpoint } from "../providers/peer/peer-fetch.ts";
import { parsePeerUrl } from "../providers/peer/peer-fetch.ts";
import { type DelegatedMessage, type LocalPeer, peerProvider } from "../providers/peer/peer-provider.ts";
import { createRemotePeer } from "../providers/peer/remote-peer.ts";
import type { PeerOptions } from "./options.ts";

/** A peer as an operator sees it. */
export interface PeerView {
  readonly name: string;
  readonly kind: "remote" | "local";
  readonly description?: string;
  readonly url?: string;
  readonly readiness: Readiness;
  readonly reason?: string;
}

/** The agents that work can be delegated to. For operators. */
export interface Peers {
  /** Sorted by name. Contacts none. */
  list(): readonly PeerView[];
  /** Reads the card of a remote peer. Throws `not_found`, `invalid_config`, `server_failed` and `needs_login`. */
  card(name: string, signal?: AbortSignal): Promise<PeerCard>;
}

const PEER_TIMEOUT_MS = 300_000;

export function createPeerSystem(parts: {
  readonly peers: Readonly<Record<string, PeerOptions>>;
  readonly models: ReadonlyMap<string, Model>;
  readonly hopsLimit: number;
  policy(): Policy;
  /** Resolves when the event survives this process. */
  record(caller: Caller, event: UnstampedEvent): Promise<void>;
  readonly runDelegatedTurn: RunDelegatedTurn;
}) {
  const { peers, models, hopsLimit, policy, record } = parts;
  const remotes = Object.entries(peers).map(([name, { timeoutMs = PEER_TIMEOUT_MS, description, ...where }]) => {
    const remote = createRemotePeer(name, {
      timeoutMs,
      hopsLimit,
      readEndpoint: () => readEndpoint(name, where),
      onTask({ caller, callId }, task) {
        const data = { callId, action: actionName("agent.peer", name), task, hops: (caller.hops ?? 0) + 1 };
        return record(caller, { type: "delegation.started", data });
      },
    });
    return { name, description, timeoutMs, remote, url: where.url };
  });

  async function delegateTo(actor: string, { message, data }: DelegatedMessage, context: CallContext) {
    const text = data === undefined ? message : `${message}\n\n${JSON.stringify(data)}`;
    const ran = await parts.runDelegatedTurn({ actor, message: text, context });
    return "waiting" in ran ? ran.waiting : toPeerResult(ran.envelope);
  }

  /** Actors with a task of their own whose model is configured. */
  const listActors = (): readonly LocalPeer[] =>
    [...policy().actors.values()].flatMap(({ name, settings }) => {
      const { model, instructions, description, exposed = false } = settings;
      const isPeer = (model ?? instructions ?? description) !== undefined && models.has(model ?? "default");
      if (!isPeer || Object.hasOwn(peers, name)) return [];
      return [
        { name, description, isExposed: exposed, delegate: (message, context) => delegateTo(name, message, context) },
      ];
    });

  const views: Peers = {
    list() {
      const remote = remotes.map(({ name, description, url, remote }): PeerView => {
        const shown = typeof url === "string" ? url : undefined;
        return { name, kind: "remote", ...omitUndefined({ description, url: shown }), ...remote.health() };
      });
      const local = listActors().map(({ name, description }): PeerView => {
        return { name, kind: "local", ...omitUndefined({ description }), readiness: "ready" };
      });
      return [...remote, ...local].sort((a, b) => (a.name < b.name ? -1 : 1));
    },
    async card(name, signal) {
      const found = remotes.find((peer) => peer.name === name);
      if (found !== undefined) return found.remote.readCard(signal);
      const hint = `Peers are in peers of quartermaster.yaml${didYouMean(name, Object.keys(peers))}.`;
      throw new QmError("not_found", `no peer ${JSON.stringify(name)} is configured`, { hint });
    },
  };
  return { provider: peerProvider({ peers: remotes, listActors }), views };
}

const ASKS_NOTE = "The actor asks for more. Answer with another message.";
/** Parts that tell how the work goes on, but are not the answer. */
const REMARKS: readonly string[] = ["ack", "thinking", "progress"];

/** The answer of an actor, as remote peers have it. Throws the error of a turn that failed or was cancelled. */
function toPeerResult({ actor, turnState, parts, error }: ActorEnvelope): PeerResult {
  if (error !== undefined) {
    const { code, error: message, hint, ...details } = error;
    throw new QmError(code, `the actor ${actor} did not answer: ${message}`, { ...omitUndefined({ hint }), details });
  }
  const said = parts.filter((part): part is AnswerPart => !REMARKS.includes(part.partType));
  const text = said.flatMap((part) => part.text ?? []).join("\n\n");
  const others = said.flatMap(({ data }) => (data === undefined ? [] : [{ data }]));
  const isAsking = turnState === "clarifying";
  const rest = { ...(others.length > 0 && { parts: others }), ...(isAsking && { note: ASKS_NOTE }) };
  return { state: isAsking ? "input_required" : "completed", text, ...rest };
}

function readEndpoint(name: string, { url, headers }: Pick<PeerOptions, "url" | "headers">): PeerEndpoint {
  try {
    return { url: parsePeerUrl(typeof url === "string" ? url : url()), headers: headers?.() ?? {} };
  } catch (thrown) {
    if (!(thrown instanceof QmError)) throw thrown;
    const hint = thrown.hintTemplate ?? "An operator must correct it in peers.";
    throw new QmError("invalid_config", `the peer ${name} cannot be used: ${thrown.message}`, { hint });
  }
}
