import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import type { CommandContext } from "../context.ts";
import { formatExamples } from "../option-parsers.ts";

export function addInitCommand(program: Command, context: CommandContext): void {
  program
    .command("init")
    .summary("write a quartermaster.yaml to start from")
    .description("Write a quartermaster.yaml with every section and its defaults into this folder.")
    .option("--force", "overwrite the file that is there")
    .addHelpText("after", formatExamples("qm init", "qm init --config staging.yaml"))
    .action((options: { readonly force?: boolean }) => runInit(context, options.force === true));
}

async function runInit({ io, globals, out }: CommandContext, force: boolean): Promise<void> {
  const { getInitialConfig } = await import("../../config/initial-config.ts");
  const { CONFIG_FILE } = await import("../../config/config-file.ts");
  const name = globals.config ?? CONFIG_FILE;
  const path = resolve(io.cwd, name);
  await writeFile(path, getInitialConfig(), { flag: force ? "w" : "wx" }).catch((thrown) => {
    throw toWriteError(path, thrown);
  });
  if (out.isJson) return out.json({ written: path });
  const option = globals.config === undefined ? "" : ` --config ${name}`;
  out.line(`Wrote ${path}.`);
  out.line();
  out.line("What next:");
  out.line("  1. Open it and say who may do what; every line is explained.");
  out.line(`  2. qm doctor${option}   checks it`);
  out.line(`  3. qm list${option}     shows the actions it gives`);
  out.line("  4. Add .quartermaster/ to .gitignore: the ledger is kept there.");
}

function toWriteError(path: string, thrown: unknown): QmError {
  if (thrown instanceof Error && "code" in thrown && thrown.code === "EEXIST")
    return new QmError("conflict", `${path} is already there; nothing was changed`, {
      hint: "--force overwrites it, and --config <path> writes another file.",
    });
  return new QmError("action_failed", `${path} cannot be written: ${getErrorMessage(thrown)}`, { cause: thrown });
}
