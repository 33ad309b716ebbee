import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";
import { ProtocolError, ProtocolErrorCode, type Result, type ServerContext } from "@modelcontextprotocol/server";
import { Mutex } from "../../core/async.ts";
import { createLeftOpenError, type Dialogue } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, type JsonObject } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import {
  type ClientAnswers,
  type ClientNotifier,
  type ClientQuestions,
  createClientNotifier,
  isAnswer,
  pickAskableCapabilities,
  requireAskableQuestions,
} from "./client-dialogue.ts";
import type { GatewayLimits } from "./gateway.ts";

/** Which question of which call an answer is for. */
interface HeldRound {
  readonly call: string;
  readonly round: number;
  /** Milliseconds since the epoch. */
  readonly expires: number;
}

/** What a state is good for: this client, this request, and no other. */
interface RequestBinding {
  readonly principal: string;
  /** Which client of the principal. */
  readonly client: string | undefined;
  readonly profile: string;
  readonly method: string;
  readonly params: unknown;
}

interface RequestStateSigner {
  sign(round: HeldRound, binding: RequestBinding): string;
  /** Undefined where it was not signed here, for another request or client, or is too old. */
  read(state: string, binding: RequestBinding, now: number): HeldRound | undefined;
}

const STATE_LIMIT = 1024;

/**
 * A client hands these back, so they are taken for hostile: each is signed with a key that lives as long as this process
 * and covers whom and what it is for. That it is used once is kept by whoever holds the call.
 */
export function createRequestStateSigner(key: Buffer = randomBytes(32)): RequestStateSigner {
  const computeMac = (payload: string, { principal, client, profile, method, params }: RequestBinding) =>
    createHmac("sha256", key)
      .update(
        JSON.stringify([payload, principal, client, profile, method, hash("sha256", canonicalJson(params), "hex")]),
      )
      .digest();

  return {
    sign({ call, round, expires }, binding) {
      const payload = Buffer.from(JSON.stringify([call, round, expires])).toString("base64url");
      return `${payload}.${computeMac(payload, binding).toString("base64url")}`;
    },
    read(state, binding, now) {
      const [payload = "", mac = "", ...rest] = state.length <= STATE_LIMIT ? state.split(".") : [];
      const given = Buffer.from(mac, "base64url");
      const expected = computeMac(payload, binding);
      if (rest.length > 0 || given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
      const round = parseRound(payload);
      return round.expires > now ? round : undefined;
    },
  };
}

/** Only what we signed gets here. */
function parseRound(payload: string): HeldRound {
  const [call, round, expires] = JSON.parse(Buffer.from(payload, "base64url").toString()) as [string, number, number];
  return { call, round, expires };
}

/** One request of the modern era that may be answered with a question. */
interface HeldRequest extends RequestBinding {
  readonly ctx: ServerContext;
  readonly capabilities: unknown;
  /** Whose connection it came on. Absent: nothing but its state says what else is of the same client. */
  readonly owner: string | undefined;
  /** Begins the call. Not called where the request goes on with one that was begun. */
  start(dialogue: Dialogue, signal: AbortSignal): Promise<Result>;
}

export interface HeldCalls {
  /** Begins a call, or goes on with the one that the request's state names, until it ends or asks something. */
  serve(request: HeldRequest): Promise<Result>;
  /** Cancels every call that waits for an answer. */
  close(): void;
}

/** A call that is under way, with a request that waits for it or with a question that waits for an answer. */
interface HeldCall {
  readonly id: string;
  readonly principal: string;
  readonly controller: AbortController;
  readonly ended: Promise<() => Result>;
  /** Where it stands: every question has a number of its own, so that each is answered once. */
  round: number;
  asked: PendingQuestion | undefined;
  notifier: ClientNotifier | undefined;
  /** Called when there is a question for the request that waits. */
  wake: (() => void) | undefined;
  expiry: NodeJS.Timeout | undefined;
}

interface PendingQuestion {
  readonly questions: ClientQuestions;
  readonly answers: Record<string, JsonObject>;
  readonly answered: (answers: ClientAnswers) => void;
  readonly refused: (reason: unknown) => void;
}

/**
 * In the modern era a client cannot be asked while its request runs: the request is answered with the question, and a
 * new one brings the answer. The call stays open in between, so that whoever asked need not begin again; for a while,
 * and not for more calls than the limits say.
 */
export function createHeldCalls(runtime: Runtime, limits: GatewayLimits): HeldCalls {
  const states = createRequestStateSigner();
  const waiting = new Map<string, HeldCall>();

  function begin({ principal, capabilities, owner, start }: HeldRequest): HeldCall {
    const controller = new AbortController();
    const mutex = new Mutex();
    const can = pickAskableCapabilities(capabilities);
    const id = runtime.newId();
    const dialogue: Dialogue = {
      owner: owner ?? id,
      capabilities: can,
      progress: (update) => call.notifier?.progress(update),
      log: (line) => call.notifier?.log(line),
      async ask(questions) {
        requireAskableQuestions(questions, can);
        // One after the other: two that ask at the same time may use the same keys.
        return mutex.run(() => askClient(call, questions));
      },
    };
    const call: HeldCall = {
      id,
      principal,
      controller,
      ended: Promise.resolve()
        .then(() => start(dialogue, controller.signal))
        .then(
          (result) => () => result,
          (thrown: unknown) => () => {
            throw thrown;
          },
        ),
      round: 0,
      asked: undefined,
      notifier: undefined,
      wake: undefined,
      expiry: undefined,
    };
    return call;
  }

  function askClient(call: HeldCall, questions: ClientQuestions): Promise<ClientAnswers> {
    return new Promise((answered, refused) => {
      if (call.controller.signal.aborted) return refused(call.controller.signal.reason);
      call.asked = { questions, answers: {}, answered, refused };
      call.controller.signal.addEventListener("abort", () => refused(call.controller.signal.reason), { once: true });
      call.wake?.();
    });
  }

  /** The call that the state names, which nobody else goes on with now. */
  function takeHeldCall(request: HeldRequest, state: string): HeldCall {
    const round = states.read(state, request, runtime.now().getTime());
    const call = round === undefined ? undefined : waiting.get(round.call);
    if (call === undefined || call.round !== round?.round) throw createInvalidStateError();
    clearTimeout(call.expiry);
    waiting.delete(call.id);
    return call;
  }

  /** Hands over the answers once all are there. What is missing, or is no answer, stays asked. */
  function answer(call: HeldCall, responses: Readonly<Record<string, unknown>>): void {
    const { asked } = call;
    if (asked === undefined) return;
    for (const [key, question] of Object.entries(asked.questions)) {
      const response = Object.hasOwn(responses, key) ? responses[key] : undefined;
      if (isAnswer(question, response)) asked.answers[key] = response;
    }
    if (Object.keys(asked.questions).some((key) => !Object.hasOwn(asked.answers, key))) return;
    call.asked = undefined;
    asked.answered(asked.answers);
  }

  /** Waits with a request for the call's end or its next question. */
  async function waitForCall(call: HeldCall, request: HeldRequest): Promise<Result> {
    const { ctx } = request;
    const cancel = () => call.controller.abort(createCancelledError("the client cancelled the call"));
    ctx.mcpReq.signal.addEventListener("abort", cancel, { once: true });
    if (ctx.mcpReq.signal.aborted) cancel();
    call.notifier = createClientNotifier(ctx);
    try {
      for (;;) {
        const end = await Promise.race([call.ended, waitForWake(call)]);
        if (end !== undefined) return end();
        const question = hold(call, request);
        if (question !== undefined) return question;
      }
    } finally {
      call.notifier = undefined;
      call.wake = undefined;
      ctx.mcpReq.signal.removeEventListener("abort", cancel);
    }
  }

  function waitForWake(call: HeldCall): Promise<undefined> {
    return new Promise((resolve) => {
      call.wake = () => resolve(undefined);
      if (call.asked !== undefined) resolve(undefined);
    });
  }

  /** The question as an answer to the request; undefined where no more calls may wait. */
  function hold(call: HeldCall, request: HeldRequest): Result | undefined {
    const { asked } = call;
    if (asked === undefined) return undefined;
    const mine = [...waiting.values()].filter(({ principal }) => principal === call.principal).length;
    if (waiting.size >= limits.heldCalls || mine >= limits.heldCallsEach) {
      call.asked = undefined;
      asked.refused(new QmError("overloaded", "too many calls wait for an answer", { hint: "Answer some of them." }));
      return undefined;
    }
    call.round++;
    call.expiry = setTimeout(() => abandon(call), limits.questionMs);
    call.expiry.unref();
    waiting.set(call.id, call);
    const expires = runtime.now().getTime() + limits.questionMs;
    const open = Object.entries(asked.questions).filter(([key]) => !Object.hasOwn(asked.answers, key));
    return {
      resultType: "input_required",
      inputRequests: Object.fromEntries(open),
      requestState: states.sign({ call: call.id, round: call.round, expires }, request),
    };
  }

  function abandon(call: HeldCall): void {
    clearTimeout(call.expiry);
    waiting.delete(call.id);
    call.controller.abort(createLeftOpenError("nobody answered the question it asked"));
  }

  return {
    async serve(request) {
      const state: unknown = request.ctx.mcpReq.requestState();
      // Without a state no question was asked, so `inputResponses` of such a request answer nothing.
      if (state === undefined) return waitForCall(begin(request), request);
      const call = takeHeldCall(request, String(state));
      answer(call, request.ctx.mcpReq.inputResponses ?? {});
      return waitForCall(call, request);
    },
    close() {
      for (const call of waiting.values()) abandon(call);
    },
  };
}

function createInvalidStateError(): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, "Invalid or expired requestState", {
    reason: "invalid_request_state",
    hint: "Send the request again without requestState and inputResponses.",
  });
}

function createCancelledError(why: string): QmError {
  return new QmError("cancelled", why);
}
