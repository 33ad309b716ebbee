import type { Outcome } from "../core/outcome.ts";
import type { Output } from "./output.ts";

/** Why there is no result, or not yet. */
export function outcomeProblem(out: Output, outcome: Exclude<Outcome, { readonly status: "done" }>): void {
  if (outcome.status !== "waiting") return out.problem({ ...outcome.error });
  const { id, level, expiresAt, preview } = outcome.approval;
  if (out.isJson) return out.json({ status: outcome.status, action: outcome.action, approval: outcome.approval });
  out.note(`qm: ${outcome.reason} It waits for somebody with the level ${level}, until ${expiresAt}.`);
  if (preview !== undefined) out.note(`    What it would do: ${preview}`);
  out.note(`    qm approvals show ${id}`);
  out.note(`    qm approvals approve ${id}`);
}
