import type { Command } from "commander";
import type { Context } from "../context.ts";
import type { Check } from "../doctor/check.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples } from "../options.ts";
import { counted, plain } from "../text.ts";

export function addDoctor(program: Command, context: Context): void {
  program
    .command("doctor")
    .summary("check this machine, the configuration and the store")
    .description("Check everything a call depends on. Changes nothing; exit code 1 when a check fails.")
    .addHelpText("after", examples("qm doctor", "qm doctor --config staging.yaml --json"))
    .action(() => doctor(context));
}

async function doctor(context: Context): Promise<void> {
  const { out } = context;
  const checks = await allChecks(context);
  const failed = checks.filter(({ status }) => status === "fail").length;
  const warned = checks.filter(({ status }) => status === "warn").length;
  if (failed > 0) context.end(exitCodes.failed);
  if (out.isJson) return out.json({ ok: failed === 0, checks });

  const paint = { ok: out.good, warn: out.warn, fail: out.bad };
  for (const { about, status, message, todo } of checks) {
    out.line(`${paint[status](status.padEnd(4))}  ${about.padEnd(8)}  ${indented(message)}`);
    if (todo !== undefined) out.line(`${" ".repeat(16)}${indented(todo)}`);
  }
  out.line();
  if (failed + warned === 0) out.line("All is well.");
  else out.line(`${counted(failed, "failure")}, ${counted(warned, "warning")}.`);
}

function indented(text: string): string {
  return plain(text).replaceAll("\n", `\n${" ".repeat(16)}`);
}

async function allChecks({ io, globals }: Context): Promise<readonly Check[]> {
  const { checkDisk, checkNode, checkWritable } = await import("../doctor/machine.ts");
  const { checkConfig } = await import("../doctor/config.ts");
  const { checkLedger } = await import("../doctor/ledger.ts");
  const { checkCatalog } = await import("../doctor/catalog.ts");
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
