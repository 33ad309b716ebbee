import type { Command } from "commander";
import { systemRuntime } from "../../app/system-runtime.ts";
import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import type { MethodRunView } from "../../providers/skill/method/method-runs.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace, reportNotFound } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";
import { formatTimeSpan } from "../terminal-text.ts";

const DEFAULT_LIMIT = 50;
const MIN_PREFIX = 6;
const ID_CHARS = 13;

export function addRunCommands(skills: Command, context: Context): void {
  skills
    .command("runs")
    .summary("list the runs of methods")
    .description("List the runs of skills of the type method, newest first.")
    .option("--all", "also runs that have ended")
    .option("--limit <n>", "show the newest N", createWholeNumberParser(1), DEFAULT_LIMIT)
    .addHelpText(...examples("qm skills runs", "qm skills runs --all --json"))
    .action(inWorkspace(context, "ledger", runSkillsRuns));

  skills
    .command("cancel")
    .summary("stop a run of a method")
    .description("Stop a run of a method, and withdraw the call of it that waits for approval.")
    .argument("<id>", "the run's id, or its beginning")
    .addHelpText(...examples("qm skills cancel 0198c0de"))
    .action(inWorkspace(context, "ledger", runSkillsCancel));
}

type RunsOptions = { readonly all?: boolean; readonly limit: number };

async function runSkillsRuns({ out }: Context, { quartermaster }: Workspace, { all = false, limit }: RunsOptions) {
  const runs = await quartermaster.methods.list({ limit, isOpen: !all });
  if (out.isJson) return out.json({ runs });
  if (runs.length === 0)
    return out.line(all ? "No method has run." : "No method runs or waits. --all shows ended runs.");
  const now = systemRuntime.now().getTime();
  out.table(
    ["id", "method", "state", "step", "age", "caller", "outcome"],
    runs.map((run) => [
      run.id.slice(0, ID_CHARS),
      run.action,
      run.state,
      `${run.step}/${run.steps}`,
      formatTimeSpan(now - Date.parse(run.startedAt)),
      `${run.actor} ${run.session}`,
      toOneLine(describeOutcome(run)),
    ]),
    { whole: [0, 1, 2] },
  );
  if (runs.some(({ state, canContinue }) => state === "waiting" && !canContinue))
    out.line(out.dim("`qm approvals list` shows what waits for approval."));
  if (runs.some(({ canContinue }) => canContinue))
    out.line(out.dim("A run that is not continued yet: `qm mcp` or `qm serve` continues it, or the same call again."));
}

function describeOutcome({ state, outcome, reason, approvalId, canContinue }: MethodRunView): string {
  if (canContinue) return state === "waiting" ? "answered, not continued yet" : "its process ended, not continued yet";
  return outcome ?? reason ?? (approvalId === undefined ? "" : `waits for approval ${approvalId.slice(0, ID_CHARS)}`);
}

async function runSkillsCancel(context: Context, { quartermaster: { methods } }: Workspace, idText: string) {
  const run = await reportNotFound(context, async () => methods.cancel(await findRunId(methods, idText)));
  if (run === undefined) return;
  context.out.answer(run, `Cancelled ${run.action}, which was in step ${run.step} of ${run.steps}.`);
}

async function findRunId(methods: Workspace["quartermaster"]["methods"], text: string): Promise<string> {
  if (text.length < MIN_PREFIX)
    throw createUsageError(`the id ${quoteName(text)} is too short`, `Give at least ${MIN_PREFIX} characters of it.`);
  const found = (await methods.list({ limit: Number.MAX_SAFE_INTEGER })).filter(({ id }) => id.startsWith(text));
  const [run, another] = found;
  const hint = "Run `qm skills runs --all` to see the ids.";
  if (run === undefined) throw new QmError("not_found", `no run id starts with ${quoteName(text)}`, { hint });
  if (another !== undefined) throw new QmError("invalid_arguments", `${found.length} run ids start with it`, { hint });
  return run.id;
}
