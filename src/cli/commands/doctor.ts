import type { Command } from "commander";
import type { CommandContext } from "../context.ts";
import type { DoctorCheck } from "../doctor/environment-checks.ts";
import { exitCodes } from "../exit-codes.ts";
import { formatExamples } from "../option-parsers.ts";
import { escapeUnsafe, formatCount } from "../terminal-text.ts";

export function addDoctorCommand(program: Command, context: CommandContext): void {
  program
    .command("doctor")
    .summary("check this machine, the configuration and the store")
    .description("Check everything a call depends on. Changes nothing; exit code 1 when a check fails.")
    .addHelpText("after", formatExamples("qm doctor", "qm doctor --config staging.yaml --json"))
    .action(() => runDoctor(context));
}

async function runDoctor(context: CommandContext): Promise<void> {
  const { out } = context;
  const checks = await runChecks(context);
  const failed = checks.filter(({ status }) => status === "fail").length;
  const warned = checks.filter(({ status }) => status === "warn").length;
  if (failed > 0) context.end(exitCodes.failed);
  if (out.isJson) return out.json({ ok: failed === 0, checks });

  const paint = { ok: out.good, warn: out.warn, fail: out.bad };
  for (const { about, status, message, todo } of checks) {
    out.line(`${paint[status](status.padEnd(4))}  ${about.padEnd(8)}  ${indentText(message)}`);
    if (todo !== undefined) out.line(`${" ".repeat(16)}${indentText(todo)}`);
  }
  out.line();
  if (failed + warned === 0) out.line("All is well.");
  else out.line(`${formatCount(failed, "failure")}, ${formatCount(warned, "warning")}.`);
}

function indentText(text: string): string {
  return escapeUnsafe(text).replaceAll("\n", `\n${" ".repeat(16)}`);
}

async function runChecks({ io, globals }: CommandContext): Promise<readonly DoctorCheck[]> {
  const { checkDisk, checkNode, checkWritable } = await import("../doctor/environment-checks.ts");
  const { checkConfig } = await import("../doctor/environment-checks.ts");
  const { checkLedger } = await import("../doctor/environment-checks.ts");
  const { checkCatalog } = await import("../doctor/catalog-checks.ts");
  const options = { cwd: io.cwd, env: io.env, configPath: globals.config };
  const node = checkNode(io.nodeVersion);
  const { check: config, places } = await checkConfig(options);
  if (places === undefined) return [node, config];
  return [
    node,
    config,
    await checkWritable(places.storePath),
    ...(await checkDisk(places.storePath)),
    await checkLedger(options),
    ...(await checkCatalog(options, places)),
  ];
}
