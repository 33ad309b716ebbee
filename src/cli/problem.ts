import type { Problem } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import { plain, safeJson, shellQuoted } from "./text.ts";

/** An error as a person at a terminal reads it: what is wrong, why, and what to type next. */
export function problemLines(problem: Problem): readonly string[] {
  const details = [
    ...(typeof problem.reason === "string" ? [problem.reason] : []),
    ...listed("Did you mean", problem.suggestions),
    ...listed("Valid", problem.valid),
    ...(typeof problem.would_run === "string" ? [`What it would do: ${problem.would_run}`] : []),
    ...example(problem),
    ...next(problem),
  ];
  return [`qm: ${plain(problem.error)}`, ...details.map((line) => `    ${plain(line).replaceAll("\n", "\n    ")}`)];
}

function listed(what: string, names: unknown): readonly string[] {
  return Array.isArray(names) && names.length > 0 ? [`${what}: ${names.join(", ")}`] : [];
}

function example({ action, example: args }: Problem): readonly string[] {
  if (!isRecord(args)) return [];
  const call = shellQuoted(safeJson(args));
  return [
    typeof action === "string" ? `For example: qm invoke ${shellQuoted(action)} ${call}` : `For example: ${call}`,
  ];
}

/** The hints of these speak to a model about its tools; at a terminal the same is a command. */
function next({ code, hint, action, call_id }: Problem): readonly string[] {
  const name = typeof action === "string" ? shellQuoted(action) : "<action>";
  // The ledger knows also of rules about arguments, which an explanation cannot judge.
  const why = typeof call_id === "string" ? `qm events --call ${shellQuoted(call_id)}` : `qm explain ${name}`;
  // What refuses something else than a call has a hint of its own.
  const isCall = typeof action === "string" || typeof call_id === "string";
  switch (code) {
    case "unknown_action":
      return ["`qm list` shows the names; `qm explain <action>` shows why one is hidden."];
    case "unknown_category":
      return ["`qm list` without a category shows everything."];
    case "invalid_arguments":
      return typeof action === "string" ? [`\`qm describe ${name}\` shows every argument.`] : given(hint);
    case "denied":
      if (!isCall) return given(hint);
      return [`It was not run. \`${why}\` shows which rule says so.`];
    case "budget_exceeded":
      return ["It was not run. Raise policy.budgets, or use another --session."];
    case "quota_exceeded":
      return [
        "`qm notes list` shows what is kept, `qm notes rm` removes it; infospace.quota says how much may be kept.",
      ];
    default:
      return given(hint);
  }
}

function given(hint: string | undefined): readonly string[] {
  return hint === undefined ? [] : [hint];
}
