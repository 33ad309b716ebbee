import { type Abortable, toAbortSignal } from "../core/abortable.ts";
import { canShowForm, type Dialogue, isLeftOpen } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { Outcome } from "../core/outcome.ts";
import { CLIENT_ROLE, type CompiledApprovals, checkApprover } from "../policy/approval-rules.ts";
import type { Approval, ApprovalAnswer, Approvals, ApprovalView, Approver, AskPerson } from "./approval.ts";
import { isFinished, toApprovalOutcome } from "./approval.ts";
import { type ApprovalRequest, createNewApproval } from "./approval-request.ts";
import type { ApprovalStore, ApprovalWatcher } from "./approval-store.ts";
import { MESSAGE_LIMIT, parseElicitationAnswer, toElicitation } from "./approval-view.ts";
import type { ExecutionPermit, PermitService } from "./permits.ts";

/** The channels that can ask a person while the call waits. Without any, the call returns `waiting` at once. */
export interface LiveChannels {
  readonly dialogue?: Dialogue | undefined;
  readonly ask?: AskPerson | undefined;
  readonly signal?: Abortable | undefined;
}

export interface ApprovalGate {
  /**
   * - `permit`: a person approved it, and this process runs it
   * - `waiting`: not answered yet, or another process runs it. `unfit`: why a client with forms was not asked
   * - `ended`: the same call was made before, and this is its outcome
   */
  obtain(
    request: ApprovalRequest,
    live: LiveChannels,
  ): Promise<
    | { readonly kind: "permit"; readonly permit: ExecutionPermit }
    | { readonly kind: "waiting"; readonly approval: Approval; readonly unfit?: string | undefined }
    | { readonly kind: "ended"; readonly approval: Approval; readonly outcome: Outcome }
  >;
}

/** The question for the person at a client, or why they are not asked. */
interface ClientQuestion {
  readonly dialogue: Dialogue;
  readonly approver: Approver;
  readonly question: ReturnType<typeof toElicitation>;
}

const FOLLOW_LIMIT_MS = 60_000;

/** `close` stops all waiting: open questions stay open, and their calls return `waiting`. */
export function createApprovalGate(options: {
  readonly store: ApprovalStore;
  readonly permits: PermitService;
  readonly changes: ApprovalWatcher;
  readonly newId: () => string;
  readonly now: () => Date;
  readonly settings: () => CompiledApprovals;
  readonly ask?: AskPerson | undefined;
  readonly toView: (approval: Approval) => ApprovalView;
  readonly readFiles: Approvals["readFiles"];
  answer(id: string, answer: ApprovalAnswer, approver: Approver): Promise<unknown>;
  expire(approval: Approval, reason: string): Promise<void>;
  recordRequest(approval: Approval): Promise<void>;
  readonly onProblem: (problem: string) => void;
}): ApprovalGate & { close(): void } {
  const { store, permits, changes, settings, now } = options;
  const waits = new Set<AbortController>();
  let closed = false;

  async function request(asked: ApprovalRequest): Promise<Approval> {
    const { maxOpen, expiresInMs } = settings();
    const at = now();
    const until = new Date(at.getTime() + (asked.objection.expiresInMs ?? expiresInMs));
    const when = { id: options.newId(), requestedAt: at.toISOString(), expiresAt: until.toISOString() };
    const { approval, isNew } = await store.request(createNewApproval(asked, when), maxOpen, asked.preview?.files);
    if (!isNew) return approval;
    try {
      await options.recordRequest(approval);
      return approval;
    } catch (thrown) {
      // A question that the ledger does not have must not be approved.
      await options.expire(approval, "it could not be recorded");
      throw thrown;
    }
  }

  /** Runs work with a signal that aborts when the caller leaves, the gate closes or the work ends. */
  async function runUntilClosed<T>({ signal }: LiveChannels, work: (over: AbortSignal) => Promise<T>): Promise<T> {
    const wait = new AbortController();
    waits.add(wait);
    if (closed) wait.abort();
    try {
      return await work(signal === undefined ? wait.signal : AbortSignal.any([toAbortSignal(signal), wait.signal]));
    } finally {
      waits.delete(wait);
      wait.abort();
    }
  }

  /** Asks on every channel at once and waits for the first answer, from these or elsewhere. */
  async function awaitAnswer(approval: Approval, live: LiveChannels): Promise<Approval> {
    const { id, expiresAt } = approval;
    try {
      return await runUntilClosed(live, async (over) => {
        const channels = [
          elicitAnswer(approval, await createClientQuestion(approval, live.dialogue), over),
          callApprover(approval, live.ask, over),
          callApprover(approval, options.ask, over),
        ].filter((channel) => channel !== undefined);
        if (channels.length === 0) return approval;
        const allDone = Promise.allSettled(channels).then(() => store.get(id));
        const timeoutMs = Math.max(0, Date.parse(expiresAt) - now().getTime());
        const decided = changes.waitUntil(id, ({ state }) => state !== "pending", { signal: over, timeoutMs });
        // If the channels end first, aborting rejects this later.
        decided.catch(() => {});
        const current = await Promise.race([decided, allDone]);
        live.signal?.throwIfAborted();
        if (current?.state !== "pending" || current.expiresAt > now().toISOString()) return current ?? approval;
        await options.expire(approval, "nobody answered in time");
        return (await store.get(id)) ?? approval;
      });
    } catch (thrown) {
      if (live.signal?.aborted !== true) {
        if (closed) return approval;
        throw thrown;
      }
      if (!isLeftOpen(live.signal.reason)) await options.expire(approval, "the caller cancelled the call");
      throw thrown instanceof QmError ? thrown : new QmError("cancelled", `${approval.action} was cancelled`);
    }
  }

  /** Claims an approved call. With `follow`, also waits for the end if another process runs it. */
  async function claimPermit(
    approval: Approval,
    follow: boolean,
    live: LiveChannels,
  ): Promise<readonly [Approval, ExecutionPermit | undefined]> {
    const isFree = ({ state }: Approval) => state !== "executing";
    for (let current = approval; ; ) {
      const permit = current.state === "approved" ? await permits.claim(current) : undefined;
      if (permit !== undefined || !follow || current.state === "pending" || isFinished(current))
        return [current, permit];
      const next = await runUntilClosed(live, (signal) =>
        changes.waitUntil(approval.id, isFree, { signal, timeoutMs: FOLLOW_LIMIT_MS }),
      ).catch(() => undefined);
      if (next === undefined || !isFree(next)) return [next ?? current, undefined];
      current = next;
    }
  }

  async function createClientQuestion(approval: Approval, dialogue: Dialogue | undefined) {
    if (dialogue === undefined || !settings().askClient || !canShowForm(dialogue.capabilities)) return undefined;
    const { user, person, session } = approval.caller;
    const approver = { id: user?.id ?? person ?? `the client of ${session}`, roles: [CLIENT_ROLE], via: "elicitation" };
    if (checkApprover(settings(), approval, approver, "approved") !== undefined) return undefined;
    const files = await options.readFiles(approval.id, { characters: MESSAGE_LIMIT });
    return { dialogue, approver, question: toElicitation(options.toView(approval), files) };
  }

  function elicitAnswer(approval: Approval, asked: ClientQuestion | undefined, over: AbortSignal) {
    if (asked === undefined || "unfit" in asked.question) return undefined;
    const { dialogue, approver, question } = asked;
    return recordAnswer(approval, over, async () => {
      const { approve } = await dialogue.ask({ approve: question });
      const answer = parseElicitationAnswer(approve ?? {});
      return answer && { answer, approver };
    });
  }

  function callApprover(approval: Approval, ask: AskPerson | undefined, over: AbortSignal) {
    if (ask === undefined) return undefined;
    return recordAnswer(approval, over, async () => {
      const answered = await ask(options.toView(approval), over);
      if (answered === undefined) return undefined;
      const { by, roles = [CLIENT_ROLE], ...answer } = answered;
      return { answer, approver: { id: by, roles, via: "library" } };
    });
  }

  /** A channel that fails, or whose answer does not count, leaves the question to the others. */
  async function recordAnswer(
    { id, action }: Approval,
    over: AbortSignal,
    ask: () => Promise<{ readonly answer: ApprovalAnswer; readonly approver: Approver } | undefined>,
  ): Promise<void> {
    try {
      const received = await ask();
      if (received !== undefined) await options.answer(id, received.answer, received.approver);
    } catch (thrown) {
      if (over.aborted || (thrown instanceof QmError && thrown.code === "conflict")) return;
      options.onProblem(`approval ${id} of ${action}: ${getErrorMessage(thrown)}`);
    }
  }

  async function getUnfitReason(approval: Approval, dialogue: Dialogue | undefined): Promise<string | undefined> {
    const asked = approval.state === "pending" ? await createClientQuestion(approval, dialogue) : undefined;
    return asked !== undefined && "unfit" in asked.question ? asked.question.unfit : undefined;
  }

  return {
    async obtain(asked, live) {
      for (;;) {
        const approval = await request(asked);
        if (!isFinished(approval)) {
          const isPending = approval.state === "pending";
          const answered = isPending ? await awaitAnswer(approval, live) : approval;
          const [current, permit] = await claimPermit(answered, isPending, live);
          if (permit !== undefined) return { kind: "permit", permit };
          if (!isFinished(current))
            return { kind: "waiting", approval: current, unfit: await getUnfitReason(current, live.dialogue) };
        }
        // If the outcome was delivered before, the same call is a new one.
        const ended = await store.get(approval.id);
        if (ended !== undefined && (await store.deliver(approval.id)))
          return { kind: "ended", approval: ended, outcome: toApprovalOutcome(ended) };
      }
    },
    close() {
      closed = true;
      for (const wait of waits) wait.abort();
    },
  };
}
