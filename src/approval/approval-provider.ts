import { z } from "zod";
import type { Provider } from "../catalog/define-action.ts";
import { defineAction } from "../catalog/define-action.ts";
import type { Action, CallContext } from "../core/action.ts";
import type { JsonObject } from "../core/json.ts";
import { getModelData, type Outcome, toWaitingFacts } from "../core/outcome.ts";
import { annotate } from "../distribution/annotated-record.ts";
import type { Approvals, ApprovalView } from "./approval.ts";

const APPROVAL = "approval";

const LONGEST_WAIT_MS = 55_000;
const USUAL_WAIT_MS = 20_000;

const approvalId = z.string().min(1).max(200).describe("As the answer of the waiting call has it.");

export interface ApprovalProviderOptions {
  readonly approvals: Pick<Approvals, "list" | "outcome" | "withdraw">;
  /** Whether any action can ask for a person. */
  isNeeded(): boolean;
  /** Whether the arguments of a call can make it ask, which no listing knows of. */
  canAskByArguments(): boolean;
}

/** What a model can do about its own calls that wait for a person. Listed only where a call can come to wait, and shown only to callers whose own calls can. */
export function createApprovalProvider({
  approvals,
  isNeeded,
  canAskByArguments,
}: ApprovalProviderOptions): Provider & { changed(): void } {
  const watchers = new Set<() => void>();
  const serves: Serves = (_other, approval) => approval !== "never" || canAskByArguments();
  const actions = [
    createAwaitAction(approvals, serves),
    createListAction(approvals, serves),
    createWithdrawAction(approvals, serves),
  ];
  let listed = false;
  return {
    category: APPROVAL,
    capability: "follow calls of yours that wait for a person to agree",
    list() {
      listed = isNeeded();
      return listed ? actions : [];
    },
    watch(onChange) {
      watchers.add(onChange);
      return () => watchers.delete(onChange);
    },
    changed() {
      if (isNeeded() !== listed) for (const watcher of watchers) watcher();
    },
  };
}

type Serves = NonNullable<Action["serves"]>;

function createAwaitAction(approvals: ApprovalProviderOptions["approvals"], serves: Serves): Action {
  return defineAction(APPROVAL, {
    serves,
    entry: "await",
    description: "Wait for the outcome of a call of yours that a person must agree to.",
    effect: "read",
    input: z.object({
      approval_id: approvalId,
      wait_ms: z.int().min(0).max(LONGEST_WAIT_MS).default(USUAL_WAIT_MS).describe("How long to wait at most."),
    }),
    run: ({ approval_id, wait_ms }, { caller, signal, untimed }) =>
      untimed(async () => formatOutcome(await approvals.outcome(approval_id, { caller, signal, timeoutMs: wait_ms }))),
  });
}

function createListAction(approvals: ApprovalProviderOptions["approvals"], serves: Serves): Action {
  return defineAction(APPROVAL, {
    serves,
    entry: "list",
    description: "List the calls of this conversation that wait for a person.",
    effect: "read",
    input: z.object({}),
    run: async (_, { caller }) => ({ waiting: (await listOwn(approvals, caller)).map(toWaitingItem) }),
  });
}

function createWithdrawAction(approvals: ApprovalProviderOptions["approvals"], serves: Serves): Action {
  return defineAction(APPROVAL, {
    serves,
    entry: "withdraw",
    description: "Take back a call of yours that waits for a person, so that it never runs.",
    effect: "write",
    idempotent: true,
    input: z.object({ approval_id: approvalId, reason: z.string().max(500).optional() }),
    run: async ({ approval_id, reason }, { caller }) => {
      const { state } = await approvals.withdraw(approval_id, caller, reason);
      return { approval_id, state };
    },
  });
}

async function listOwn(
  approvals: ApprovalProviderOptions["approvals"],
  { session, actor, tenant, user }: CallContext["caller"],
) {
  const open = await approvals.list({
    state: ["pending", "approved", "executing"],
    session,
    actor,
    ...(tenant === undefined ? {} : { tenant }),
  });
  return open.filter((approval) => approval.tenant === tenant && approval.user === user?.id);
}

/** Without the arguments: they may hold values that the model has only tokens for. */
function toWaitingItem({ id, callId, action, state, level, expiresAt }: ApprovalView) {
  return { approval_id: id, call_id: callId, action, state, level, expires_at: expiresAt } satisfies JsonObject;
}

/** What became of it, as a model may see it. That call's own record has its result, as far as that may be written down. */
function formatOutcome(outcome: Outcome): unknown {
  const { status, action } = outcome;
  if (outcome.status === "waiting") return { status, action, ...toWaitingFacts(outcome.reason, outcome.approval) };
  if (outcome.status !== "done") return { status, action, ...outcome.error };
  return annotate({ status, action, result: getModelData(outcome) }, { result: { hidden: ["audit"] } });
}
