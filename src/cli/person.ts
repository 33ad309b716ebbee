import { QmError } from "../core/errors.ts";
import { quoted } from "../core/names.ts";
import type { Workspace } from "../workspace.ts";
import { confirmed, isTerminal } from "./ask.ts";
import { type Context, personOf } from "./context.ts";
import type { TextOut } from "./io.ts";
import { oneLine } from "./text.ts";

/** Holds the token of an approver who answers without a terminal. */
export const TOKEN_VARIABLE = "QM_APPROVER_TOKEN";

/** Whoever answers at the command line. */
export interface Person {
  readonly id: string;
  readonly roles: readonly string[];
  /** Whether an approver's token shows who they are. */
  readonly hasToken: boolean;
}

/** The approver whose token the environment holds, else whoever `--as` names, else the user of this system. */
export async function personAt({ io, out }: Context, { config, fill }: Workspace, as?: string): Promise<Person> {
  // Loaded with the first answer: the program starts without them.
  const { approverTokens, rolesOf } = await import("../http/approvers.ts");
  const token = io.env[TOKEN_VARIABLE];
  if (token === undefined || token === "") {
    const id = as ?? personOf(io);
    if (as === undefined) return { id, roles: rolesOf(config, id), hasToken: false };
    const { rolesOfNamed } = await import("./commands/approvals/people.ts");
    return { id, roles: rolesOfNamed(config, as), hasToken: false };
  }
  const { authorizeBy } = await import("../core/authorize-by.ts");
  const { SECRET, variablesIn } = await import("../config/references.ts");
  const onProblem = (problem: string) => out.note(`qm: warning: ${oneLine(problem)}`);
  // Whoever runs this program chooses its variables, so a token that comes from one of them proves nothing here.
  const stored = Object.entries(config.approvals.approvers).filter(([, approver]) =>
    variablesIn(approver.token ?? "").every((name) => name.startsWith(SECRET)),
  );
  const approvals = { ...config.approvals, approvers: Object.fromEntries(stored) };
  const known = authorizeBy(approverTokens({ ...config, approvals }, { fill, onProblem }))(token);
  if (known === undefined)
    throw new QmError("denied", `the token in ${TOKEN_VARIABLE} belongs to no approver`, {
      hint: `Use the token of one of approvals.approvers, which must be a \${secret:NAME} to count here, or unset the variable and answer at a terminal.`,
    });
  if (as !== undefined && as !== known.id)
    throw new QmError("invalid_arguments", `the token in ${TOKEN_VARIABLE} is not that of ${quoted(as)}`, {
      hint: "Leave out --as, or use that approver's own token.",
    });
  return { ...known, hasToken: true };
}

/**
 * Throws `denied` unless a token or a terminal shows that a person is there. A program that an agent starts has neither,
 * so `--yes` alone approves nothing. `shownOn` is where the person reads what they agree to.
 */
export function requirePresence({ io, out }: Context, person: Person, shownOn?: TextOut): void {
  const screen = shownOn ?? (out.isJson ? io.stderr : io.stdout);
  if (person.hasToken || (isTerminal(io.stdin) && screen.isTTY)) return;
  throw new QmError("denied", "nothing was approved: that takes a person at a terminal, or an approver's token", {
    hint: `Run it at a terminal, or with ${TOKEN_VARIABLE} set to the token of one of approvals.approvers.`,
  });
}

export interface Approving {
  readonly question: string;
  /** What would be done, as in `nothing was installed`. */
  readonly done: string;
  /** Whether `--yes` was given. It counts only where a token shows who the person is. */
  readonly yes: boolean | undefined;
}

/** Throws unless a person is there and says yes. */
export async function requireYes(context: Context, person: Person, approving: Approving): Promise<void> {
  requirePresence(context, person);
  if ((approving.yes && person.hasToken) || (await confirmed(context.io, approving.question))) return;
  throw new QmError("tool_denied", `nothing was ${approving.done}: nobody agreed to it`, {
    hint: `Answer y at a terminal, or give --yes together with ${TOKEN_VARIABLE}.`,
  });
}
