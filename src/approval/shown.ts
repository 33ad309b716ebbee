import type { Json } from "../core/json.ts";
import type { Approval, ShownApproval } from "./approval.ts";

/** An approval as people are shown it. `redact` takes secrets out, as it does for the ledger. */
export function shownApproval(approval: Approval, redact: (value: unknown) => Json): ShownApproval {
  const { args, outcome: _outcome, delivered: _, executor: _executor, caller, preview, ...rest } = approval;
  const { actor, session, turn, tenant, user, person } = caller;
  return {
    ...rest,
    args: redact(args),
    ...(preview === undefined ? {} : { preview: String(redact(preview)) }),
    actor,
    session,
    ...(turn === undefined ? {} : { turn }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user: user.id }),
    ...(person === undefined ? {} : { person }),
  };
}
