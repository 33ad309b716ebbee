import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import type { Context } from "../context.ts";
import { examples } from "../option-parsers.ts";

export function addInitCommand(program: Command, context: Context): void {
  program
    .command("init")
    .summary("write a quartermaster.yaml to start from")
    .description("Write a quartermaster.yaml with every section and its defaults into this folder.")
    .option("--force", "overwrite an existing file")
    .addHelpText(...examples("qm init", "qm init --config staging.yaml"))
    .action(({ force = false }: { readonly force?: boolean }) => runInit(context, force));
}

async function runInit({ io, globals, out }: Context, force: boolean): Promise<void> {
  const { getInitialConfig } = await import("../../config/initial-config.ts");
  const { CONFIG_FILE } = await import("../../config/config-file.ts");
  const name = globals.config ?? CONFIG_FILE;
  const path = resolve(io.cwd, name);
  await writeFile(path, getInitialConfig(), { flag: force ? "w" : "wx" }).catch((thrown) => {
    if (thrown.code === "EEXIST")
      throw new QmError("conflict", `${path} already exists; nothing was changed`, {
        hint: "Give --force to overwrite it, or --config <path> to write another file.",
      });
    throw new QmError("action_failed", `${path} cannot be written: ${getErrorMessage(thrown)}`, { cause: thrown });
  });
  const option = globals.config === undefined ? "" : ` --config ${name}`;
  out.answer(
    { written: path },
    `Wrote ${path}.

What next:
  1. Open it and set who may do what; every line is explained.
  2. qm doctor${option}   checks it
  3. qm list${option}     lists the actions it provides
  4. Add .quartermaster/ to .gitignore: the ledger is stored there.`,
  );
}
