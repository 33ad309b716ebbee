import type { AskPerson } from "../approval/approval.ts";
import { QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";
import type { Workspace } from "../workspace/workspace.ts";
import type { TextStream } from "./context.ts";
import { type CommandContext, getSystemUser } from "./context.ts";
import { confirmAtTerminal, isTerminal } from "./terminal.ts";
import { toOneLine } from "./terminal-text.ts";

/** Holds the token of an approver who answers without a terminal. */
const TOKEN_VARIABLE = "QM_APPROVER_TOKEN";

/** Whoever answers at the command line. */
interface CliApprover {
  readonly id: string;
  readonly roles: readonly string[];
  /** Whether an approver's token shows who they are. */
  readonly hasToken: boolean;
}

/** The approver whose token the environment holds, else whoever `--as` names, else the user of this system. */
export async function identifyApprover(
  { io, out }: CommandContext,
  { config, fill }: Workspace,
  as?: string,
): Promise<CliApprover> {
  // Loaded with the first answer: the program starts without them.
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
  // Whoever runs this program chooses its variables, so a token that comes from one of them proves nothing here.
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
 * Throws `denied` unless a token or a terminal shows that a person is there. A program that an agent starts has neither,
 * so `--yes` alone approves nothing. `shownOn` is where the person reads what they agree to.
 */
export function requirePresence({ io, out }: CommandContext, person: CliApprover, shownOn?: TextStream): void {
  const screen = shownOn ?? (out.isJson ? io.stderr : io.stdout);
  if (person.hasToken || (isTerminal(io.stdin) && screen.isTTY)) return;
  throw new QmError("denied", "nothing was approved: that takes a person at a terminal, or an approver's token", {
    hint: `Run it at a terminal, or with ${TOKEN_VARIABLE} set to the token of one of approvals.approvers.`,
  });
}

interface ApprovalPrompt {
  readonly question: string;
  /** What would be done, as in `nothing was installed`. */
  readonly done: string;
  /** Whether `--yes` was given. It counts only where a token shows who the person is. */
  readonly yes: boolean | undefined;
}

/** Throws unless a person is there and says yes. */
export async function requireYes(
  context: CommandContext,
  person: CliApprover,
  approving: ApprovalPrompt,
): Promise<void> {
  requirePresence(context, person);
  if ((approving.yes && person.hasToken) || (await confirmAtTerminal(context.io, approving.question))) return;
  throw new QmError("tool_denied", `nothing was ${approving.done}: nobody agreed to it`, {
    hint: `Answer y at a terminal, or give --yes together with ${TOKEN_VARIABLE}.`,
  });
}

/** Nobody said yes. */
export function createNotAgreedError(what: string): QmError {
  return new QmError("tool_denied", `nothing was ${what}: nobody agreed to it`, {
    hint: "Answer y at a terminal, or give --yes where there is none.",
  });
}

/** The answer of a person who was shown what would be done and has said yes to it. */
export function createApprovedAnswer({ id, roles }: CliApprover): { readonly ask: AskPerson } {
  return { ask: async () => ({ decision: "approved", by: id, roles }) };
}
