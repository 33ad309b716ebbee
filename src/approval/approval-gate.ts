import { type Caller, type Dialogue, isLeftOpen, isSameCaller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import { CLIENT_ROLE, type CompiledApprovals, checkApprover } from "../policy/approval-rules.ts";
import type { AskPerson } from "./approval.ts";
import {
  type Approval,
  type ApprovalAnswer,
  type ApprovalView,
  type Approver,
  isFinished,
  toApprovalOutcome,
} from "./approval.ts";
import { type ApprovalRequest, createNewApproval } from "./approval-request.ts";
import type { ApprovalStore, ApprovalWatcher } from "./approval-store.ts";
import { canElicit, parseElicitationAnswer, toElicitation } from "./approval-view.ts";
import type { ExecutionPermit, PermitService } from "./permits.ts";

/** Who can be asked while the call waits. None of them: it is left to others, and the call is answered `waiting`. */
export interface LiveChannels {
  readonly dialogue?: Dialogue | undefined;
  readonly ask?: AskPerson | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * - `permit`: somebody agreed, and this process runs it
 * - `waiting`: nobody has answered yet, or another process runs it
 * - `ended`: the same call was asked for before, and this is what became of it
 */
export type ApprovalGateResult =
  | { readonly kind: "permit"; readonly permit: ExecutionPermit }
  | {
      readonly kind: "waiting";
      readonly approval: Approval;
      /** Why the person at the client was not asked, although the client can ask. */
      readonly unfit?: string | undefined;
    }
  | { readonly kind: "ended"; readonly approval: Approval; readonly outcome: Outcome };

/** Where calls wait that a person must agree to. */
export interface ApprovalGate {
  obtain(request: ApprovalRequest, live: LiveChannels): Promise<ApprovalGateResult>;
  /** Waits until a waiting outcome has its end. Anything else is answered as it is. */
  settled(outcome: Outcome, caller: Caller, signal: AbortSignal): Promise<Outcome>;
}

export interface ApprovalGateOptions {
  readonly store: ApprovalStore;
  readonly permits: PermitService;
  readonly changes: ApprovalWatcher;
  readonly newId: () => string;
  readonly now: () => Date;
  readonly settings: () => CompiledApprovals;
  /** The host's own way of asking a person, for every call. */
  readonly ask?: AskPerson | undefined;
  readonly toView: (approval: Approval) => ApprovalView;
  answer(id: string, answer: ApprovalAnswer, approver: Approver): Promise<unknown>;
  /** The question is over without an answer. */
  expire(approval: Approval, reason: string): Promise<void>;
  recordRequest(approval: Approval): Promise<void>;
  readonly onProblem: (problem: string) => void;
}

/** Most calls are over by then. What is not is answered `waiting`. */
const FOLLOW_LIMIT_MS = 60_000;

/** `close`: nobody is waited for any more. What is not answered yet stays asked, and its calls are answered `waiting`. */
export function createApprovalGate(parts: ApprovalGateOptions): ApprovalGate & { close(): void } {
  const { store, permits, changes, settings } = parts;
  const waits = new Set<AbortController>();
  let closed = false;

  /** Waits for something until the caller leaves, or nobody is waited for any more. */
  async function runUntilClosed<T>({ signal }: LiveChannels, work: (over: AbortSignal) => Promise<T>): Promise<T> {
    const wait = new AbortController();
    waits.add(wait);
    if (closed) wait.abort();
    try {
      return await work(signal === undefined ? wait.signal : AbortSignal.any([signal, wait.signal]));
    } finally {
      waits.delete(wait);
      wait.abort();
    }
  }

  async function request(asked: ApprovalRequest): Promise<Approval> {
    const { maxOpen, expiresInMs } = settings();
    const at = parts.now();
    const until = new Date(at.getTime() + (asked.objection.expiresInMs ?? expiresInMs));
    const when = { id: parts.newId(), requestedAt: at.toISOString(), expiresAt: until.toISOString() };
    const { approval, isNew } = await store.request(createNewApproval(asked, when), maxOpen);
    if (!isNew) return approval;
    try {
      await parts.recordRequest(approval);
      return approval;
    } catch (thrown) {
      // A question that is nowhere written down must not be agreed to.
      await parts.expire(approval, "it could not be written down");
      throw thrown;
    }
  }

  /** Asks everybody who can be asked now, and waits for the first answer from wherever it comes. */
  async function awaitAnswer(approval: Approval, live: LiveChannels): Promise<Approval> {
    try {
      return await runUntilClosed(live, async (over) => {
        const channels = [
          elicitAnswer(approval, live.dialogue, over),
          callApprover(approval, live.ask, over),
          callApprover(approval, parts.ask, over),
        ];
        const asked = channels.filter((channel) => channel !== undefined);
        if (asked.length === 0) return approval;
        const everybodyIsDone = Promise.allSettled(asked).then(() => store.get(approval.id));
        const left = Date.parse(approval.expiresAt) - parts.now().getTime();
        const isDecided = ({ state }: Approval) => state !== "pending";
        const decided = changes.waitUntil(approval.id, isDecided, { signal: over, timeoutMs: Math.max(0, left) });
        // Whichever of the two is not waited for any more may still be rejected.
        decided.catch(() => {});
        const now = await Promise.race([decided, everybodyIsDone]);
        live.signal?.throwIfAborted();
        if (now?.state !== "pending" || now.expiresAt > parts.now().toISOString()) return now ?? approval;
        await parts.expire(approval, "nobody answered in time");
        return (await store.get(approval.id)) ?? approval;
      });
    } catch (thrown) {
      if (closed && live.signal?.aborted !== true) return approval;
      if (live.signal?.aborted !== true) throw thrown;
      if (!isLeftOpen(live.signal.reason)) await parts.expire(approval, "the caller cancelled the call");
      throw thrown instanceof QmError ? thrown : new QmError("cancelled", `${approval.action} was cancelled`);
    }
  }

  /** The right to run what was agreed to. Who waited for the answer waits for the end, too, where another process has it. */
  async function claimPermit(
    approval: Approval,
    isWaitedFor: boolean,
    live: LiveChannels,
  ): Promise<readonly [Approval, ExecutionPermit | undefined]> {
    let now = approval;
    for (;;) {
      const permit = now.state === "approved" ? await permits.claim(now) : undefined;
      if (permit !== undefined || !isWaitedFor || now.state === "pending" || isFinished(now)) return [now, permit];
      const isFree = ({ state }: Approval) => state !== "executing";
      const next = await runUntilClosed(live, (signal) =>
        changes.waitUntil(approval.id, isFree, { signal, timeoutMs: FOLLOW_LIMIT_MS }),
      ).catch(() => undefined);
      if (next === undefined || !isFree(next)) return [next ?? now, undefined];
      now = next;
    }
  }

  /** What the person at the client would be asked, where there is one who may agree. */
  function createClientQuestion(approval: Approval, dialogue: Dialogue | undefined) {
    if (dialogue === undefined || !settings().askClient || !canElicit(dialogue)) return undefined;
    const { user, person, session } = approval.caller;
    const approver = { id: user?.id ?? person ?? `the client of ${session}`, roles: [CLIENT_ROLE], via: "elicitation" };
    if (checkApprover(settings(), approval, approver, "approved") !== undefined) return undefined;
    return { dialogue, approver, question: toElicitation(parts.toView(approval)) };
  }

  function elicitAnswer(approval: Approval, given: Dialogue | undefined, over: AbortSignal): Promise<void> | undefined {
    const asked = createClientQuestion(approval, given);
    if (asked === undefined || "unfit" in asked.question) return undefined;
    const { dialogue, approver, question } = asked;
    return recordAnswer(approval, over, async () => {
      const { approve } = await dialogue.ask({ approve: question });
      const answer = parseElicitationAnswer(approve ?? {});
      return answer && { answer, approver };
    });
  }

  function callApprover(approval: Approval, ask: AskPerson | undefined, over: AbortSignal): Promise<void> | undefined {
    if (ask === undefined) return undefined;
    return recordAnswer(approval, over, async () => {
      const given = await ask(parts.toView(approval), over);
      if (given === undefined) return undefined;
      const { by, roles = [CLIENT_ROLE], ...answer } = given;
      return { answer, approver: { id: by, roles, via: "library" } };
    });
  }

  function getUnfitReason(approval: Approval, dialogue: Dialogue | undefined): string | undefined {
    const asked = approval.state === "pending" ? createClientQuestion(approval, dialogue) : undefined;
    return asked !== undefined && "unfit" in asked.question ? asked.question.unfit : undefined;
  }

  /** A channel that fails, or whose answer does not count, leaves the question to the others. */
  async function recordAnswer(
    approval: Approval,
    over: AbortSignal,
    listen: () => Promise<ReceivedAnswer | undefined>,
  ): Promise<void> {
    try {
      const given = await listen();
      if (given !== undefined) await parts.answer(approval.id, given.answer, given.approver);
    } catch (thrown) {
      if (over.aborted || (thrown instanceof QmError && thrown.code === "conflict")) return;
      parts.onProblem(`approval ${approval.id} of ${approval.action}: ${getErrorMessage(thrown)}`);
    }
  }

  return {
    async obtain(asked, live) {
      for (;;) {
        const approval = await request(asked);
        if (!isFinished(approval)) {
          const isAsked = approval.state === "pending";
          const [now, permit] = await claimPermit(
            isAsked ? await awaitAnswer(approval, live) : approval,
            isAsked,
            live,
          );
          if (permit !== undefined) return { kind: "permit", permit };
          if (!isFinished(now)) return { kind: "waiting", approval: now, unfit: getUnfitReason(now, live.dialogue) };
        }
        // What its caller has been given already is history, and the same call is a new one.
        const ended = await store.get(approval.id);
        if (ended !== undefined && (await store.deliver(approval.id))) {
          return { kind: "ended", approval: ended, outcome: toApprovalOutcome(ended) };
        }
      }
    },
    async settled(outcome, caller, signal) {
      if (outcome.status !== "waiting") return outcome;
      const asked = await store.get(outcome.approval.id);
      if (asked === undefined || !isSameCaller(asked.caller, caller)) return outcome;
      const ended = await changes.waitUntil(outcome.approval.id, isFinished, { signal });
      if (ended === undefined) return outcome;
      await store.deliver(ended.id);
      return toApprovalOutcome(ended);
    },
    close() {
      closed = true;
      for (const wait of waits) wait.abort();
    },
  };
}

interface ReceivedAnswer {
  readonly answer: ApprovalAnswer;
  readonly approver: Approver;
}
