import type { AskPerson } from "../approval/approval.ts";
import { toOneLine } from "../core/display-text.ts";
import { QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { type Context, getSystemUser, type TextStream } from "./context.ts";
import { confirmAtTerminal, isTerminal } from "./terminal.ts";

/** Holds the token of an approver who answers without a terminal. */
const TOKEN_VARIABLE = "QM_APPROVER_TOKEN";

interface CliApprover {
  readonly id: string;
  readonly roles: readonly string[];
  /** Whether an approver's token proves who they are. */
  readonly hasToken: boolean;
}

/** The approver whose token is in the environment, else the one that `--as` names, else the user of this system. */
export async function identifyApprover({ io, out }: Context, { config, fill }: Workspace, as?: string) {
  const { readApproverTokens, getApproverRoles } = await import("../http/approvers.ts");
  const token = io.env[TOKEN_VARIABLE];
  if (token === undefined || token === "") {
    const id = as ?? getSystemUser(io);
    if (as === undefined) return { id, roles: getApproverRoles(config, id), hasToken: false };
    const { requireConfiguredRoles } = await import("./commands/approvals/lookup.ts");
    return { id, roles: requireConfiguredRoles(config, as), hasToken: false };
  }
  const { createTokenAuthorizer } = await import("../core/token-authorizer.ts");
  const { SECRET_PREFIX, listVariables } = await import("../config/references.ts");
  const onProblem = (problem: string) => out.note(`qm: warning: ${toOneLine(problem)}`);
  // The caller of this program chooses its environment, so an approver token taken from the environment proves nothing.
  const stored = Object.entries(config.approvals.approvers).filter(([, approver]) =>
    listVariables(approver.token ?? "").every((name) => name.startsWith(SECRET_PREFIX)),
  );
  const approvals = { ...config.approvals, approvers: Object.fromEntries(stored) };
  const known = createTokenAuthorizer(readApproverTokens({ ...config, approvals }, { fill, onProblem }))(token);
  if (known === undefined)
    throw new QmError("denied", `the token in ${TOKEN_VARIABLE} belongs to no approver`, {
      hint: `Use the token of one of approvals.approvers, which must be a \${secret:NAME} to count here, or unset the variable and answer at a terminal.`,
    });
  if (as !== undefined && as !== known.id)
    throw new QmError("invalid_arguments", `the token in ${TOKEN_VARIABLE} is not that of ${quoteName(as)}`, {
      hint: "Leave out --as, or use that approver's own token.",
    });
  return { ...known, hasToken: true };
}

/**
 * Throws `denied` unless a token or a terminal proves that a person is present. A program started by an agent has
 * neither, so `--yes` alone approves nothing. `screen` is where the person reads the call.
 */
export function requirePresence({ io, out }: Context, person: CliApprover, screen?: TextStream): void {
  const { isTTY } = screen ?? (out.isJson ? io.stderr : io.stdout);
  if (person.hasToken || (isTerminal(io.stdin) && isTTY)) return;
  throw new QmError("denied", "nothing was approved: that takes a person at a terminal, or an approver's token", {
    hint: `Run it at a terminal, or with ${TOKEN_VARIABLE} set to the token of one of approvals.approvers.`,
  });
}

export interface Confirmation {
  readonly question: string;
  /** The past participle for the error: `nothing was installed`. */
  readonly done: string;
  /** The object for the error. Default: `it`. */
  readonly what?: string;
  readonly yes: boolean | undefined;
}

/** Throws unless a person is present and says yes. `--yes` counts only with an approver's token. */
export async function requireApproval(context: Context, person: CliApprover, asked: Confirmation) {
  requirePresence(context, person);
  const hint = `Answer y at a terminal, or give --yes together with ${TOKEN_VARIABLE}.`;
  await requireYes(context, { ...asked, yes: asked.yes && person.hasToken }, hint);
}

/** Throws `tool_denied` unless `--yes` was given or the person at the terminal says yes. */
export async function requireYes(
  { io }: Pick<Context, "io">,
  { question, done, what = "it", yes }: Confirmation,
  hint = "Answer y at a terminal, or give --yes if there is none.",
): Promise<void> {
  if (yes || (await confirmAtTerminal(io, question))) return;
  throw new QmError("tool_denied", `nothing was ${done}: nobody agreed to ${what}`, { hint });
}

/** Answers the approval question of a call that the person has already agreed to. */
export function createApprovedAnswer({ id, roles }: CliApprover): { readonly ask: AskPerson } {
  return { ask: async () => ({ decision: "approved", by: id, roles }) };
}
