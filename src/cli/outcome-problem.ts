import type { Outcome } from "../core/outcome.ts";
import type { Output } from "./output.ts";
import { plain } from "./text.ts";

/** Why there is no result, or not yet. */
export function outcomeProblem(out: Output, outcome: Exclude<Outcome, { readonly status: "done" }>): void {
  if (outcome.status !== "waiting") out.problem({ ...outcome.error });
  else if (out.isJson) out.json({ status: outcome.status, action: outcome.action, approval: outcome.approval });
  else for (const line of waitingLines(outcome)) out.note(line);
}

function waitingLines({ reason, approval }: Extract<Outcome, { readonly status: "waiting" }>): readonly string[] {
  const { id, level, expiresAt, preview } = approval;
  return [
    `qm: it waits, and was not run. ${plain(reason)} Level ${plain(level)}, until ${expiresAt}.`,
    ...(preview === undefined ? [] : [`    What it would do: ${plain(preview).replaceAll("\n", "\n    ")}`]),
    `    \`qm approvals approve ${id}\` agrees to it, \`qm approvals deny ${id}\` says no.`,
  ];
}
