import type { ShownApproval } from "../../../approval/approval.ts";
import { QmError } from "../../../core/errors.ts";
import type { Workspace } from "../../../workspace.ts";
import { confirmed } from "../../ask.ts";
import type { Context } from "../../context.ts";
import { personAt, requireYes } from "../../person.ts";
import { notAgreed } from "../servers/agreement.ts";
import { becomeOf, showOutcome } from "./become.ts";
import { findApproval } from "./find.ts";
import { rolesFor, whoElse } from "./people.ts";
import { answerText, showCall } from "./words.ts";

export interface AnswerOptions {
  readonly reason?: string;
  readonly as?: string;
  readonly run?: boolean;
  readonly yes?: boolean;
}

export async function answer(
  context: Context,
  workspace: Workspace,
  decision: "approved" | "denied",
  given: string,
  { reason, as, run = true, yes = false }: AnswerOptions,
): Promise<void> {
  const { io, out } = context;
  const { config } = workspace;
  const { approvals } = workspace.quartermaster;
  const found = await findApproval(approvals, given);
  if (found.state !== "pending") throw answeredBefore(found);
  const person = await personAt(context, workspace, as);
  const { id: by, roles } = person;
  showCall(out.isJson ? onStderr(out) : out, found, { roles: rolesFor(config, found) });
  if (decision === "approved")
    await requireYes(context, person, { question: "Approve exactly this call?", done: decision, yes });
  else if (!yes && !(await confirmed(io, "Deny it?"))) throw notAgreed(decision);

  const approval = await approvals
    .answer(found.id, { decision, ...(reason === undefined ? {} : { reason }) }, { id: by, roles, via: "cli" })
    .catch((thrown: unknown) => {
      if (!(thrown instanceof QmError) || thrown.code !== "denied") throw thrown;
      const { message, details } = thrown;
      throw new QmError("denied", message, {
        hint: whoElse(config, found, decision, (name) => `If that is you, give --as ${name}.`),
        details,
        cause: thrown,
      });
    });
  if (decision === "denied" || !run) {
    if (out.isJson) return out.json({ approval });
    return out.line(decision === "denied" ? "Denied: it will not run." : "Approved: it runs where a process is there.");
  }
  if (!out.isJson) out.line("Approved.");
  const outcome = await becomeOf(context, approvals, found);
  if (out.isJson) out.json({ approval: await approvals.get(found.id), outcome });
  showOutcome(context, outcome);
}

/** With --json the answer is on stdout; what it is about is still shown to whoever is asked. */
function onStderr({ note }: Context["out"]) {
  const plainly = (text: string) => text;
  return { line: (text = "") => note(text), bold: plainly, warn: plainly };
}

function answeredBefore(approval: ShownApproval): QmError {
  const { id, state, answer } = approval;
  if (state === "expired")
    return new QmError("approval_expired", `nobody can answer it any more: ${answer?.reason ?? "it has expired"}`, {
      hint: "It was not run. Whoever wants it must ask again.",
      details: { approval_id: id },
    });
  return new QmError("conflict", `it is answered already: ${answerText(approval)}, at ${answer?.at}`, {
    hint: `The first answer counts. \`qm approvals show ${id}\` shows what became of it.`,
    details: { approval_id: id, state, ...(answer === undefined ? {} : { answer: { ...answer } }) },
  });
}
