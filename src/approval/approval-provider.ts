import { z } from "zod";
import { defineAction, type Provider } from "../catalog/define-action.ts";
import type { Action, CallContext } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { createHintWords } from "../core/hint.ts";
import { omitUndefined } from "../core/json.ts";
import { composeWaitingHint, getModelData, type Outcome, toWaitingFacts } from "../core/outcome.ts";
import { annotate } from "../distribution/annotated-record.ts";
import { type Approvals, REASON_LIMIT } from "./approval.ts";

const APPROVAL = "approval";
const LONGEST_WAIT_MS = 55_000;
const USUAL_WAIT_MS = 20_000;

/** Lets a model follow its own waiting calls. Listed only if a call can need approval, and only for such callers. */
export function createApprovalProvider(options: {
  readonly approvals: Pick<Approvals, "list" | "outcome" | "withdraw">;
  isNeeded(): boolean;
  /** Whether the arguments of a call can make it need approval, which no listing shows. */
  canAskByArguments(): boolean;
}): Provider & { changed(): void } {
  const { approvals, isNeeded, canAskByArguments } = options;
  const watchers = new Set<() => void>();
  const serves: Action["serves"] = (_other, approval) => approval !== "never" || canAskByArguments();
  const actions = createActions(approvals, serves);
  let listed = false;
  return {
    category: APPROVAL,
    capability: "Follow your calls that wait for a person's approval.",
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

function createActions(
  approvals: Pick<Approvals, "list" | "outcome" | "withdraw">,
  serves: NonNullable<Action["serves"]>,
): readonly Action[] {
  const approvalId = z.string().min(1).max(200).describe("The approval_id from the result of the waiting call.");
  const wait = z.int().min(0).max(LONGEST_WAIT_MS).default(USUAL_WAIT_MS).describe("How long to wait at most.");

  async function listOwn({ session, actor, tenant, user }: Caller) {
    const query = omitUndefined({ session, actor, tenant });
    const open = await approvals.list({ state: ["pending", "approved", "executing"], ...query });
    return open.filter((approval) => approval.tenant === tenant && approval.user === user?.id);
  }

  return [
    defineAction(APPROVAL, {
      serves,
      entry: "await",
      description: "Wait for the outcome of a call of yours that a person must approve.",
      effect: "read",
      input: z.lazy(() => z.object({ approval_id: approvalId, wait_ms: wait })),
      examples: [{ args: { approval_id: "01J00000000000000000000000", wait_ms: 1000 } }],
      run: ({ approval_id, wait_ms: timeoutMs }, { caller, signal, untimed, sees }) =>
        untimed(async () => formatOutcome(await approvals.outcome(approval_id, { caller, signal, timeoutMs }), sees)),
    }),
    defineAction(APPROVAL, {
      serves,
      entry: "list",
      description: "List the calls of this conversation that wait for a person.",
      effect: "read",
      input: z.lazy(() => z.object({})),
      examples: [{ args: {} }],
      // Without the arguments: they may hold values that the model has only tokens for.
      run: async (_, { caller }) => ({
        waiting: (await listOwn(caller)).map(({ id, callId, action, state, level, expiresAt }) => ({
          approval_id: id,
          call_id: callId,
          action,
          state,
          level,
          expires_at: expiresAt,
        })),
      }),
    }),
    defineAction(APPROVAL, {
      serves,
      entry: "withdraw",
      description: "Withdraw a call of yours that waits for a person, so that it never runs.",
      effect: "write",
      idempotent: true,
      input: z.lazy(() => z.object({ approval_id: approvalId, reason: z.string().max(REASON_LIMIT).optional() })),
      examples: [{ args: { approval_id: "01J00000000000000000000000", reason: "No longer needed." } }],
      run: async ({ approval_id, reason }, { caller }) => {
        const { state } = await approvals.withdraw(approval_id, caller, reason);
        return { approval_id, state };
      },
    }),
  ];
}

/** The outcome as a model may see it. The result stays out of the audit log, because the original call recorded it. */
function formatOutcome(outcome: Outcome, sees: CallContext["sees"]): unknown {
  const { status, action } = outcome;
  if (outcome.status === "waiting") {
    const hint = composeWaitingHint(outcome, createHintWords("flat", sees, false));
    return { status, action, ...toWaitingFacts({ ...outcome, hint }) };
  }
  if (outcome.status !== "done") return { status, action, ...outcome.error };
  return annotate({ status, action, result: getModelData(outcome) }, { result: { hidden: ["audit"] } });
}
