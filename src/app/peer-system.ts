import type { PeerTask } from "../a2a/peer-task.ts";
import type { PeerTasks } from "../a2a/task-service.ts";
import type { RunDelegatedTurn } from "../actor/delegated-turn.ts";
import type { ActorEnvelope, ActorEvent, AnswerPart } from "../actor/envelope.ts";
import type { Approvals } from "../approval/approval.ts";
import type { View } from "../catalog/view.ts";
import { type Action, type CallContext, hasSideEffects, type Readiness } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { PEER_CATEGORY, PEER_VIA } from "../core/delegation.ts";
import { QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import type { Model } from "../core/model.ts";
import { actionName } from "../core/names.ts";
import { didYouMean } from "../core/nearest.ts";
import { getModelData, type Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { ActionCall } from "../invoke/invoke.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Policy } from "../policy/policy.ts";
import type { PeerCard } from "../providers/peer/agent-card.ts";
import type { PeerResult } from "../providers/peer/peer-answer.ts";
import type { PeerEndpoint } from "../providers/peer/peer-fetch.ts";
import { parsePeerUrl } from "../providers/peer/peer-fetch.ts";
import {
  type DelegatedMessage,
  defineLocalPeer,
  type LocalPeer,
  peerProvider,
} from "../providers/peer/peer-provider.ts";
import { createRemotePeer } from "../providers/peer/remote-peer.ts";
import type { Store } from "../store/open-store.ts";
import { type ExposedAction, toExposedAction } from "./action-summaries.ts";
import { parseCaller } from "./caller-access.ts";
import { createCallFinder } from "./method-system.ts";
import type { CallerOptions, PeerOptions } from "./options.ts";
import { systemProcess } from "./system-runtime.ts";
import { withdrawApproval } from "./withdraw-approval.ts";

/** A peer as an operator sees it. */
export interface PeerView {
  readonly name: string;
  readonly kind: "remote" | "local";
  readonly description?: string;
  readonly url?: string;
  readonly readiness: Readiness;
  readonly reason?: string;
}

/** The agents that work can be delegated to, for operators, and what other agents may call, for an endpoint. */
export interface Peers {
  /** Sorted by name. Contacts none. */
  list(): readonly PeerView[];
  /** Reads the card of a remote peer. Throws `not_found`, `invalid_config`, `server_failed` and `needs_login`. */
  card(name: string, signal?: AbortSignal): Promise<PeerCard>;
  /** The actions that other agents may call as this caller, over A2A. Sorted by name. */
  listExposed(caller?: CallerOptions): readonly ExposedAction[];
  /** Tasks that other agents gave us. */
  openTasks(): Promise<PeerTasks>;
}

const PEER_TIMEOUT_MS = 300_000;

export function createPeerSystem(parts: {
  readonly peers: Readonly<Record<string, PeerOptions>>;
  readonly models: ReadonlyMap<string, Model>;
  readonly hopsLimit: number;
  policy(): Policy;
  /** Resolves when the event survives this process. */
  record(caller: Caller, event: UnstampedEvent): Promise<void>;
  readonly runTurn: RunDelegatedTurn;
  readonly store: Pick<Store, "peerTasks" | "approvals">;
  readonly approvals: Pick<Approvals, "look" | "outcome" | "withdraw">;
  readonly anchors: Pick<Anchors, "fill">;
  findAction(name: string): Action | undefined;
  getView(caller: Caller): View;
  invoke(call: ActionCall, signal: AbortSignal): Promise<Outcome>;
  readonly ledger: Pick<Ledger, "read" | "flush">;
  readonly runtime: Runtime;
  readonly onProblem: (problem: string) => void;
}) {
  const { peers, models, hopsLimit, policy, record, runTurn } = parts;
  const remotes = Object.entries(peers).map(([name, { timeoutMs = PEER_TIMEOUT_MS, description, ...where }]) => {
    const remote = createRemotePeer(name, {
      timeoutMs,
      hopsLimit,
      readEndpoint: () => readEndpoint(name, where),
      onTask({ caller, callId }, task) {
        const data = { callId, action: actionName(PEER_CATEGORY, name), task, hops: (caller.hops ?? 0) + 1 };
        return record(caller, { type: "delegation.started", data });
      },
    });
    return { name, description, timeoutMs, remote, url: where.url };
  });

  /** Actors with a task of their own whose model is configured. */
  const listActors = ({ actors } = policy()): readonly LocalPeer[] =>
    [...actors.values()].flatMap(({ name, settings }) => {
      const { model, instructions, description, exposed = false } = settings;
      const isPeer = (model ?? instructions ?? description) !== undefined && models.has(model ?? "default");
      if (!isPeer || Object.hasOwn(peers, name)) return [];
      return [
        {
          name,
          description,
          isExposed: exposed,
          delegate: (message, context) => delegateTurn(runTurn, name, message, context),
        },
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
      throw new QmError(
        "not_found",
        `no peer ${JSON.stringify(name)} is configured${didYouMean(name, Object.keys(peers))}`,
        { hint: "{qm peers list} shows the peers." },
      );
    },
    listExposed: (caller) =>
      parts
        .getView(parseCaller(caller))
        .actions()
        .filter(({ peerExposed }) => peerExposed)
        .map(toExposedAction),
    openTasks,
  };

  async function openTasks(): Promise<PeerTasks> {
    const { createPeerTasks } = await import("../a2a/task-service.ts");
    const { store, approvals, anchors, findAction, invoke } = parts;

    /** The answer of an actor with values in place of tokens, which mean nothing to another process. */
    async function fillTokens({ action, caller }: PeerTask, outcome: Outcome): Promise<Outcome> {
      if (outcome.status !== "done" || findAction(action)?.localActor === undefined) return outcome;
      const { args: forModel } = await anchors.fill(caller, getModelData(outcome));
      return { ...outcome, forModel };
    }

    return createPeerTasks({
      ...parts,
      store: store.peerTasks,
      self: systemProcess,
      async invoke(task, signal, dialogue) {
        const { callId: id, action: name, args, caller } = task;
        const call = { id, name, args, caller, via: PEER_VIA, dialogue, keep: false };
        return fillTokens(task, await invoke(call, signal));
      },
      findCall: createCallFinder(parts.ledger, approvals).findCall,
      canRepeat(name, hasEnded) {
        const action = findAction(name);
        if (action === undefined) return false;
        // The turn of an actor is stored step by step, and continues. After its end, another one would begin.
        return (action.localActor !== undefined && !hasEnded) || action.idempotent || !hasSideEffects(action.effect);
      },
      waitForApproval: (id, signal) => approvals.look(id, { signal }),
      takeOutcome: async (task, id) => fillTokens(task, await approvals.outcome(id, { timeoutMs: 0 })),
      withdraw: (id) => withdrawApproval(parts, id, "the peer cancelled its task"),
    });
  }

  return {
    provider: peerProvider({ peers: remotes, listActors: () => listActors() }),
    /** The actions as they would be under a policy: with its own actors as peers. */
    replaceActors(actions: readonly Action[], next: Policy): readonly Action[] {
      const others = actions.filter(({ localActor }) => localActor === undefined);
      return [...others, ...listActors(next).map(defineLocalPeer)];
    },
    views,
  };
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

/** Parts that are only for people who watch. */
const PASSING: readonly string[] = ["ack", "progress", "thinking"];

async function delegateTurn(
  runTurn: RunDelegatedTurn,
  actor: string,
  { message, data }: DelegatedMessage,
  context: CallContext,
): Promise<unknown> {
  const onEvent = (event: ActorEvent): void => {
    if (event.type === "step") context.dialogue?.progress({ progress: event.step, total: event.of });
    else if (event.type === "part" && PASSING.includes(event.part.partType))
      context.dialogue?.progress({ progress: 0, ...omitUndefined({ message: event.part.text }) });
  };
  const text = data === undefined ? message : `${message}\n\n${JSON.stringify(data)}`;
  const ran = await runTurn({ actor, message: text, context, onEvent });
  return "waiting" in ran ? ran.waiting : toPeerResult(ran.envelope);
}

/** The answer of an actor, as that of any peer. Throws as its turn ended. */
function toPeerResult({ actor, turnState, parts, error }: ActorEnvelope): PeerResult {
  if (turnState === "failed" || turnState === "cancelled") {
    const { code = "cancelled", error: why = "its turn was cancelled", hint, ...details } = error ?? {};
    const rest = { ...omitUndefined({ hint }), details: { ...details, peer: actor } };
    throw new QmError(code, `the actor ${actor} gave no answer: ${why}`, rest);
  }
  const said = parts.filter((part): part is AnswerPart => part.partType !== "approval-request");
  const lasting = said.filter(({ partType }) => !PASSING.includes(partType));
  const text = lasting.flatMap((part) => part.text ?? []).join("\n\n");
  const others = lasting.flatMap(({ data }) => (data === undefined ? [] : [{ data }]));
  const state = turnState === "clarifying" ? "input_required" : "completed";
  return { state, text, ...(others.length > 0 && { parts: others }) };
}
