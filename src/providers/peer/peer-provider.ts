import { z } from "zod";
import { defineAction, extendAction, type Provider } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { PEER_CATEGORY } from "../../core/delegation.ts";
import type { JsonObject } from "../../core/json.ts";
import { peerStates } from "./peer-answer.ts";
import type { PeerMessage, RemotePeer } from "./remote-peer.ts";

/** A turn takes many requests to a model. Each has a limit of its own. */
const TURN_MS = 30 * 60_000;
const CLOSING_MS = 10_000;

/** An agent of another process, as it is configured. */
export interface ConfiguredPeer {
  readonly name: string;
  readonly description?: string | undefined;
  /** How long a call waits for its answer. */
  readonly timeoutMs: number;
  readonly remote: RemotePeer;
}

export type DelegatedMessage = { readonly message: string; readonly data?: JsonObject | undefined };

/** An actor of this process that answers with its own model and under its own policy. */
export interface LocalPeer {
  readonly name: string;
  readonly description?: string | undefined;
  readonly isExposed: boolean;
  delegate(message: DelegatedMessage, context: CallContext): Promise<unknown>;
}

export interface PeerProviderOptions {
  readonly peers: readonly ConfiguredPeer[];
  /** Asked for each listing: a changed policy may have other actors. */
  listActors(): readonly LocalPeer[];
}

const message = z.string().min(1).max(100_000);
const data = z.looseObject({}).optional().describe("Structured input, beside or instead of the message.");
const id = z.string().min(1).max(256).optional();

const remoteInput = z.lazy(() =>
  z.object({
    message: message.optional().describe("What the peer is to do, in words. Leave it out to ask about a task."),
    data,
    task: id.describe("The task of an earlier answer: to go on with it, or to ask how far it is."),
    context: id.describe("The context of an earlier answer, for a new task in the same conversation."),
  }),
);
const localInput = z.lazy(() => z.object({ message: message.describe("What the actor is to do, in words."), data }));

const output = z.looseObject({
  state: z.enum(peerStates),
  text: z.string(),
  parts: z.array(z.looseObject({})).optional(),
  task: z.string().optional(),
  context: z.string().optional(),
  note: z.string().optional(),
});

/** Other agents as actions: calling one delegates a message to it. */
export function peerProvider({ peers, listActors }: PeerProviderOptions): Provider & { changed(): void } {
  const watchers = new Set<() => void>();
  const remote = peers.map(defineRemotePeer);
  return {
    category: PEER_CATEGORY,
    capability: "Delegate work to other agents.",
    list: () => [...remote, ...listActors().map(defineLocalPeer)],
    watch(onChange) {
      watchers.add(onChange);
      return () => watchers.delete(onChange);
    },
    /** Lists the actors again. */
    changed() {
      for (const watcher of watchers) watcher();
    },
    async close() {
      await Promise.all(peers.map((peer) => peer.remote.close()));
    },
  };
}

function defineRemotePeer({ name, description, timeoutMs, remote }: ConfiguredPeer): Action {
  return defineAction(PEER_CATEGORY, {
    entry: name,
    description: description ?? `Delegate a message to the agent ${name}, which another process runs.`,
    source: `peer:${name}`,
    tags: ["peer", "remote"],
    effect: "external",
    input: remoteInput,
    // Every argument is optional, so an example made from the schema would be empty.
    examples: [{ args: { message: "What can you help with?" } }],
    output,
    readiness: () => remote.health().readiness,
    readinessReason: () => remote.health().reason,
    // The answer must come before the call is aborted.
    timeoutMs: timeoutMs + CLOSING_MS,
    run: (args, context) => remote.delegate(args as PeerMessage, context),
  });
}

export function defineLocalPeer({ name, description, isExposed, delegate }: LocalPeer): Action {
  const action = defineAction(PEER_CATEGORY, {
    entry: name,
    description: description ?? `Delegate a message to the actor ${name}.`,
    tags: ["peer", "local"],
    effect: "stateful",
    input: localInput,
    examples: [{ args: { message: "What can you help with?" } }],
    output,
    timeoutMs: TURN_MS,
    run: (args, context) => delegate(args as DelegatedMessage, context),
  });
  // The model of the actor sees the message, so it gets tokens like any other model.
  return extendAction(action, { localActor: name, peerExposed: isExposed, keepsTokens: true });
}
