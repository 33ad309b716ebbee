import { setTimeout as sleep } from "node:timers/promises";
import type { AgentCard, Part, SendMessageRequest } from "@a2a-js/sdk";
import type { CallContext, Readiness } from "../../core/action.ts";
import { yieldToEventLoop } from "../../core/async.ts";
import { isLeftOpen } from "../../core/caller.ts";
import { countHop, HOPS_KEY } from "../../core/delegation.ts";
import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { clip, type JsonObject } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { createCardReader, type PeerCard } from "./agent-card.ts";
import { createAnswerError, PeerAnswer, type PeerResult } from "./peer-answer.ts";
import { createPeerFetch, type PeerEndpoint } from "./peer-fetch.ts";

export interface PeerMessage {
  readonly message?: string | undefined;
  readonly data?: JsonObject | undefined;
  readonly task?: string | undefined;
  readonly context?: string | undefined;
}

export interface RemotePeerOptions {
  /** Throws `invalid_config`, for example while its token is missing. */
  readEndpoint(): PeerEndpoint;
  readonly timeoutMs: number;
  readonly hopsLimit: number;
  /** Called once the peer has named its task. Resolves when that survives this process. */
  onTask(context: CallContext, task: string): Promise<void>;
}

export interface PeerHealth {
  readonly readiness: Readiness;
  readonly reason?: string;
}

const FIRST_POLL_MS = 100;
const LONGEST_POLL_MS = 5_000;
/** How long to wait at least after a failed question. */
const FAILED_POLL_MS = 1_000;
const CANCEL_MS = 5_000;
const EVENTS_AT_ONCE = 50;
/** Failed questions in a row about a task. The server may have been restarted in between. */
const FAILURE_LIMIT = 8;
const PROGRESS_LIMIT = 100;
const VERSION = { "A2A-Version": "1.0" };

export type RemotePeer = ReturnType<typeof createRemotePeer>;

/** One agent of another process. A message is sent at most once; after that only its task is asked about. */
export function createRemotePeer(peer: string, options: RemotePeerOptions) {
  const { timeoutMs, hopsLimit } = options;
  const readCard = createCardReader(peer, () => performance.now());
  const cancelling = new Set<Promise<void>>();
  let health: PeerHealth = { readiness: "ready" };

  async function fetchCard(endpoint: PeerEndpoint, signal?: AbortSignal): Promise<PeerCard> {
    try {
      const card = await readCard(endpoint, signal);
      health = { readiness: "ready" };
      return card;
    } catch (thrown) {
      if (signal?.aborted !== true) health = describeHealth(thrown);
      throw thrown;
    }
  }

  async function connect(signal: AbortSignal) {
    const endpoint = options.readEndpoint();
    const card = await fetchCard(endpoint, signal);
    // Loaded with the first call: most runs call no peer.
    const { JsonRpcTransportFactory } = await import("@a2a-js/sdk/client");
    const fetchImpl = createPeerFetch(peer, endpoint);
    // The factory reads the card only for older versions of the protocol.
    const transport = await new JsonRpcTransportFactory({ fetchImpl }).create(card.url, {} as AgentCard);
    return { card, transport };
  }

  type Connection = Awaited<ReturnType<typeof connect>>;

  async function send({ card, transport }: Connection, given: PeerMessage, call: DelegatedCall): Promise<void> {
    const { answer, context, signal } = call;
    const request = toRequest(given, context, countHop(context.caller, hopsLimit), card);
    const requestOptions = { signal, serviceParameters: VERSION };
    const heard = (status: string | undefined): Promise<void> | undefined => {
      call.report(status);
      return call.noteTask();
    };
    call.isSent = true;
    if (!card.streaming) {
      const result = await transport.sendMessage(request, requestOptions);
      if ("messageId" in result) answer.addMessage(result);
      else await heard(answer.addTask(result));
      return;
    }
    try {
      let events = 0;
      for await (const event of transport.sendMessageStream(request, requestOptions)) {
        await heard(answer.add(event));
        if (answer.hasEnded) return;
        // Many events may come at once.
        if (++events % EVENTS_AT_ONCE === 0) await yieldToEventLoop();
      }
    } catch (thrown) {
      // The task goes on without the stream, and can be asked about.
      if (answer.task === undefined || signal.aborted || thrown instanceof QmError) throw thrown;
    }
    if (answer.task === undefined && !answer.hasEnded) throw createAnswerError(peer, "its stream ended without one");
  }

  async function ask({ transport, card }: Connection, call: DelegatedCall): Promise<void> {
    const { answer, signal } = call;
    const query = { id: answer.task ?? "", tenant: card.tenant ?? "", historyLength: 0 };
    call.report(answer.addTask(await transport.getTask(query, { signal, serviceParameters: VERSION })));
  }

  /** Asks about the task until it has ended. */
  async function follow(connection: Connection, call: DelegatedCall): Promise<void> {
    let failures = 0;
    let pause = FIRST_POLL_MS;
    while (!call.answer.hasEnded) {
      await sleep(pause, undefined, { signal: call.signal });
      pause = Math.min(pause * 1.5, LONGEST_POLL_MS);
      try {
        await ask(connection, call);
        failures = 0;
      } catch (thrown) {
        if (call.signal.aborted || !isPassing(thrown) || ++failures === FAILURE_LIMIT) throw thrown;
        pause = Math.max(pause, FAILED_POLL_MS);
      }
    }
  }

  /** Tells the peer that its answer is not wanted. It may be too late. */
  function cancel({ transport, card }: Connection, id: string): void {
    const request = { id, tenant: card.tenant ?? "", metadata: undefined };
    const signal = AbortSignal.timeout(CANCEL_MS);
    const sent = transport.cancelTask(request, { signal, serviceParameters: VERSION }).then(
      () => {},
      () => {},
    );
    cancelling.add(sent);
    void sent.then(() => cancelling.delete(sent));
  }

  return {
    health(): PeerHealth {
      try {
        options.readEndpoint();
        return health;
      } catch (thrown) {
        return { readiness: "unavailable", reason: getErrorMessage(thrown) };
      }
    },
    /** Throws `invalid_config`, `server_failed` and `needs_login`. */
    readCard: (signal?: AbortSignal): Promise<PeerCard> => fetchCard(options.readEndpoint(), signal),
    /**
     * Sends a message and waits for its answer. Without `message` and `data` it asks about the task. When the time is over,
     * it returns the state of the task as it is. Throws as the peer ended.
     */
    async delegate(given: PeerMessage, context: CallContext): Promise<PeerResult> {
      const isQuestion = given.message === undefined && given.data === undefined;
      if (isQuestion && given.task === undefined)
        throw new QmError("invalid_arguments", "message is missing", {
          hint: "Give a message, or the task to ask about.",
        });
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(), timeoutMs);
      const call = startCall(peer, given.task, context, AbortSignal.any([context.signal, late.signal]), options.onTask);
      let connection: Connection | undefined;
      try {
        connection = await connect(call.signal);
        if (isQuestion) await ask(connection, call);
        else await send(connection, given, call);
        await follow(connection, call);
      } catch (thrown) {
        const { task } = call.answer;
        if (context.signal.aborted) {
          const isWanted = isLeftOpen(context.signal.reason);
          if (connection !== undefined && call.isSent && task !== undefined && !isWanted) cancel(connection, task);
          throw context.signal.reason;
        }
        if (!late.signal.aborted) throw toPeerProblem(peer, thrown, call);
        if (task === undefined) throw createLateError(peer, timeoutMs, call.isSent);
      } finally {
        clearTimeout(timer);
      }
      return call.answer.toResult();
    },
    async close(): Promise<void> {
      await Promise.all(cancelling);
    },
  };
}

interface DelegatedCall {
  readonly answer: PeerAnswer;
  readonly context: CallContext;
  readonly signal: AbortSignal;
  isSent: boolean;
  report(status: string | undefined): void;
  noteTask(): Promise<void> | undefined;
}

function startCall(
  peer: string,
  task: string | undefined,
  context: CallContext,
  signal: AbortSignal,
  onTask: RemotePeerOptions["onTask"],
): DelegatedCall {
  const answer = new PeerAnswer(peer, task);
  let isNoted = false;
  let reported = 0;
  let last: string | undefined;
  return {
    answer,
    context,
    signal,
    isSent: false,
    report(status) {
      if (status === undefined || status === last || reported === PROGRESS_LIMIT) return;
      last = status;
      context.dialogue?.progress({ progress: ++reported, message: `${peer}: ${status}` });
    },
    noteTask() {
      if (isNoted || answer.task === undefined) return undefined;
      isNoted = true;
      return onTask(context, answer.task);
    },
  };
}

function toRequest(
  { message, data, task, context: conversation }: PeerMessage,
  { callId }: CallContext,
  hops: number,
  { tenant = "" }: PeerCard,
): SendMessageRequest {
  const rest = { metadata: undefined, filename: "" };
  const parts: Part[] = [];
  if (message !== undefined)
    parts.push({ content: { $case: "text", value: message }, mediaType: "text/plain", ...rest });
  if (data !== undefined)
    parts.push({ content: { $case: "data", value: data }, mediaType: "application/json", ...rest });
  return {
    tenant,
    metadata: undefined,
    message: {
      // A server that sees the id again has got the message before.
      messageId: callId,
      contextId: conversation ?? "",
      taskId: task ?? "",
      role: 1,
      parts,
      metadata: { [HOPS_KEY]: hops },
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: {
      acceptedOutputModes: ["text/plain", "application/json"],
      taskPushNotificationConfig: undefined,
      historyLength: 0,
      // The id of the task is needed early: to cancel it, and to find it after a crash.
      returnImmediately: true,
    },
  };
}

const isPassing = (thrown: unknown): boolean =>
  thrown instanceof QmError && thrown.code === "server_failed" && thrown.retryable;

function describeHealth(thrown: unknown): PeerHealth {
  const needsLogin = thrown instanceof QmError && thrown.code === "needs_login";
  return { readiness: needsLogin ? "needs_login" : "unavailable", reason: getErrorMessage(thrown) };
}

/** Our own errors pass, with the task that was begun. Errors of the SDK quote the peer, so they are escaped and cut. */
function toPeerProblem(peer: string, thrown: unknown, { answer: { task }, isSent }: DelegatedCall): QmError {
  const details = { peer, ...(task === undefined ? {} : { task }) };
  if (thrown instanceof QmError)
    return new QmError(thrown.code, thrown.message, {
      ...(thrown.hintTemplate === undefined ? {} : { hint: thrown.hintTemplate }),
      details: { ...thrown.details, ...details },
    });
  const message = quoteName(toOneLine(clip(getErrorMessage(thrown), 600)));
  const isUnknown = (thrown as { readonly reason?: unknown } | undefined)?.reason === "TASK_NOT_FOUND";
  if (isUnknown) return new QmError("not_found", `the peer ${peer} does not know the task: ${message}`, { details });
  const hint = isSent ? "It may have had an effect: look before trying again." : "Try again later, or do without it.";
  return new QmError("action_failed", `the peer ${peer} answered with an error: ${message}`, { hint, details });
}

function createLateError(peer: string, ms: number, isSent: boolean): QmError {
  const hint = isSent ? "It may have had an effect: look before trying again." : "Try again later, or do without it.";
  return new QmError("timed_out", `the peer ${peer} did not answer within ${ms} ms`, { hint, details: { peer } });
}
