import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";
import { ProtocolError, ProtocolErrorCode, type Result } from "@modelcontextprotocol/server";
import { type Abortable, LazyAbortController } from "../../core/abortable.ts";
import { Mutex, onAbort } from "../../core/async.ts";
import { createLeftOpenError, type Dialogue } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, getOwn, type JsonObject } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import {
  type ClientAnswers,
  type ClientNotifier,
  type ClientQuestions,
  createClientNotifier,
  isAnswer,
  pickAskableCapabilities,
  type RequestContext,
  requireAskableQuestions,
} from "./client-dialogue.ts";
import type { GatewayLimits } from "./gateway.ts";

/** A request state is valid for this client and this request only. */
interface RequestBinding {
  readonly principal: string;
  /** The principal's client that sent the request. */
  readonly client: string | undefined;
  readonly profile: string;
  readonly method: string;
  readonly params: unknown;
}

/** A request of the modern era that may be answered with a question. */
interface HeldRequest extends RequestBinding {
  readonly ctx: RequestContext;
  readonly capabilities: unknown;
  /** The session of the client's connection. Absent: it has none. */
  readonly owner: string | undefined;
  /** Starts the call. Not called for a request that continues one. */
  start(dialogue: Dialogue, signal: Abortable): Promise<Result>;
}

export type HeldCalls = ReturnType<typeof createHeldCalls>;

/** A running call: a request waits for it, or it waits for the answer to a question. */
interface HeldCall {
  readonly id: string;
  readonly principal: string;
  readonly controller: LazyAbortController;
  readonly ended: Promise<() => Result>;
  /** Counts the questions, so that each is answered once. */
  round: number;
  question?: PendingQuestion | undefined;
  notifier?: ClientNotifier | undefined;
  /** Called when there is a question for the request that waits. */
  wake?: (() => void) | undefined;
  expiry?: NodeJS.Timeout;
}

interface PendingQuestion {
  readonly questions: ClientQuestions;
  readonly answers: Record<string, JsonObject>;
  readonly resolve: (answers: ClientAnswers) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Lets calls of the modern era ask questions. The request is answered with the question, and a new request brings the
 * answer. In between the call stays open, for a limited time, so that it does not start again.
 */
export function createHeldCalls(runtime: Runtime, limits: GatewayLimits) {
  const states = createRequestStateSigner();
  const waiting = new Map<string, HeldCall>();

  function begin({ principal, capabilities: declared, owner, start }: HeldRequest): HeldCall {
    const controller = new LazyAbortController();
    const mutex = new Mutex();
    const capabilities = pickAskableCapabilities(declared);
    const id = runtime.newId();
    const dialogue: Dialogue = {
      owner: owner ?? id,
      capabilities,
      progress: (update) => call.notifier?.progress(update),
      log: (line) => call.notifier?.log(line),
      async ask(questions) {
        requireAskableQuestions(questions, capabilities);
        // One after the other: two questions may use the same keys.
        return mutex.run(() => askClient(call, questions));
      },
    };
    // A function, so that a rejection is not unhandled while no request waits.
    const ended = Promise.resolve()
      .then(() => start(dialogue, controller))
      .then(
        (result) => () => result,
        (thrown: unknown) => () => {
          throw thrown;
        },
      );
    const call: HeldCall = { id, principal, controller, ended, round: 0 };
    return call;
  }

  function askClient(call: HeldCall, questions: ClientQuestions): Promise<ClientAnswers> {
    return new Promise((resolve, reject) => {
      onAbort(call.controller, reject);
      if (call.controller.aborted) return;
      call.question = { questions, answers: {}, resolve, reject };
      call.wake?.();
    });
  }

  /** Takes the call that the state names, so that no other request continues it. */
  function takeCall(request: HeldRequest, state: string): HeldCall {
    const signed = states.read(state, request, runtime.now().getTime());
    const call = signed === undefined ? undefined : waiting.get(signed.call);
    if (call === undefined || call.round !== signed?.round)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Invalid or expired requestState", {
        reason: "invalid_request_state",
        hint: "Send the request again without requestState and inputResponses.",
      });
    clearTimeout(call.expiry);
    waiting.delete(call.id);
    return call;
  }

  /** Passes the answers on when all are there. A missing or invalid one is asked for again. */
  function answer(call: HeldCall, responses: Readonly<Record<string, unknown>>): void {
    const { question } = call;
    if (question === undefined) return;
    const { questions, answers, resolve } = question;
    for (const [key, asked] of Object.entries(questions)) {
      const response = getOwn(responses, key);
      if (isAnswer(asked, response)) answers[key] = response;
    }
    if (listOpen(question).length > 0) return;
    call.question = undefined;
    resolve(answers);
  }

  /** Waits until the call ends or asks its next question. */
  async function waitForCall(call: HeldCall, request: HeldRequest): Promise<Result> {
    const { ctx } = request;
    const stopListening = onAbort(ctx.mcpReq.signal, () =>
      call.controller.abort(new QmError("cancelled", "the client cancelled the call")),
    );
    call.notifier = createClientNotifier(ctx);
    try {
      for (;;) {
        const end = await Promise.race([call.ended, waitForQuestion(call)]);
        if (end !== undefined) return end();
        const result = hold(call, request);
        if (result !== undefined) return result;
      }
    } finally {
      call.notifier = undefined;
      call.wake = undefined;
      stopListening();
    }
  }

  function waitForQuestion(call: HeldCall): Promise<undefined> {
    return new Promise((resolve) => {
      call.wake = () => resolve(undefined);
      if (call.question !== undefined) call.wake();
    });
  }

  /** The result that carries the question. Undefined: too many calls wait, and the question was refused. */
  function hold(call: HeldCall, request: HeldRequest): Result | undefined {
    const { question } = call;
    if (question === undefined) return undefined;
    const own = [...waiting.values()].filter(({ principal }) => principal === call.principal).length;
    if (waiting.size >= limits.heldCalls || own >= limits.heldCallsEach) {
      call.question = undefined;
      question.reject(new QmError("overloaded", "too many calls wait for an answer", { hint: "Answer some of them." }));
      return undefined;
    }
    call.round++;
    call.expiry = setTimeout(() => abandon(call), limits.questionMs);
    call.expiry.unref();
    waiting.set(call.id, call);
    const expires = runtime.now().getTime() + limits.questionMs;
    return {
      resultType: "input_required",
      inputRequests: Object.fromEntries(listOpen(question)),
      requestState: states.sign({ call: call.id, round: call.round, expires }, request),
    };
  }

  function abandon(call: HeldCall): void {
    clearTimeout(call.expiry);
    waiting.delete(call.id);
    call.controller.abort(createLeftOpenError("nobody answered the question it asked"));
  }

  return {
    /** Starts a call, or continues the one that the request's state names, until it ends or asks something. */
    async serve(request: HeldRequest): Promise<Result> {
      const state: unknown = request.ctx.mcpReq.requestState();
      // Without a state no question was asked, and `inputResponses` answer nothing.
      if (state === undefined) return waitForCall(begin(request), request);
      const call = takeCall(request, String(state));
      answer(call, request.ctx.mcpReq.inputResponses ?? {});
      return waitForCall(call, request);
    },
    /** Cancels every call that waits for an answer. */
    close(): void {
      for (const call of waiting.values()) abandon(call);
    },
  };
}

function listOpen({ questions, answers }: PendingQuestion) {
  return Object.entries(questions).filter(([key]) => !Object.hasOwn(answers, key));
}

interface HeldRound {
  readonly call: string;
  readonly round: number;
  /** Milliseconds since the epoch. */
  readonly expires: number;
}

const STATE_LIMIT = 1024;

/** Signs states with a key of this process, for one client and request. `createHeldCalls` lets each be used once. */
export function createRequestStateSigner(key: Buffer = randomBytes(32)) {
  const computeMac = (payload: string, { principal, client, profile, method, params }: RequestBinding) => {
    const digest = hash("sha256", canonicalJson(params), "hex");
    const signed = JSON.stringify([payload, principal, client, profile, method, digest]);
    return createHmac("sha256", key).update(signed).digest();
  };

  return {
    sign({ call, round, expires }: HeldRound, binding: RequestBinding): string {
      const payload = Buffer.from(JSON.stringify([call, round, expires])).toString("base64url");
      return `${payload}.${computeMac(payload, binding).toString("base64url")}`;
    },
    /** Undefined: the state was not signed here, or for another request or client, or is too old. */
    read(state: string, binding: RequestBinding, now: number): HeldRound | undefined {
      const [payload = "", mac = "", ...rest] = state.length <= STATE_LIMIT ? state.split(".") : [];
      const given = Buffer.from(mac, "base64url");
      const expected = computeMac(payload, binding);
      if (rest.length > 0 || given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
      const parsed = JSON.parse(Buffer.from(payload, "base64url").toString()) as [string, number, number];
      const [call, round, expires] = parsed;
      return expires > now ? { call, round, expires } : undefined;
    },
  };
}
