import type { Command } from "commander";
import { escapeUnsafe, formatCount } from "../../core/display-text.ts";
import type { Context } from "../context.ts";
import type { DoctorCheck } from "../doctor/environment-checks.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";

export function addDoctorCommand(program: Command, context: Context): void {
  program
    .command("doctor")
    .summary("check this machine, the configuration and the store")
    .description("Check everything a call depends on. Changes nothing; exits with 1 when a check fails.")
    .addHelpText(...examples("qm doctor", "qm doctor --config staging.yaml --json"))
    .action(() => runDoctor(context));
}

async function runDoctor(context: Context): Promise<void> {
  const { out } = context;
  const checks = await runChecks(context);
  const failed = checks.filter(({ status }) => status === "fail").length;
  const warned = checks.filter(({ status }) => status === "warn").length;
  if (failed > 0) context.end(exitCodes.failed);
  if (out.isJson) return out.json({ ok: failed === 0, checks });

  const paint = { ok: out.good, warn: out.warn, fail: out.bad };
  for (const { about, status, message, todo } of checks) {
    out.line(`${paint[status](status.padEnd(4))}  ${about.padEnd(8)}  ${indentText(message)}`);
    if (todo !== undefined) out.line(`${INDENT}${indentText(todo)}`);
  }
  const amounts = `${formatCount(failed, "failure")}, ${formatCount(warned, "warning")}.`;
  out.line("", failed + warned === 0 ? "All checks passed." : amounts);
}

const INDENT = " ".repeat(16);

function indentText(text: string): string {
  return escapeUnsafe(text).replaceAll("\n", `\n${INDENT}`);
}

async function runChecks({ io, globals }: Context): Promise<readonly DoctorCheck[]> {
  const environment = await import("../doctor/environment-checks.ts");
  const { checkCatalog } = await import("../doctor/workspace-checks.ts");
  const options = { cwd: io.cwd, env: io.env, configPath: globals.config };
  const node = environment.checkNode(io.nodeVersion);
  const { check: config, paths } = await environment.checkConfig(options);
  if (paths === undefined) return [node, config];
  return [
    node,
    config,
    await environment.checkWritable(paths.storePath),
    ...(await environment.checkDisk(paths.storePath)),
    await environment.checkLedger(options),
    ...(await checkCatalog(io, options, paths.fileRoot)),
  ];
}
