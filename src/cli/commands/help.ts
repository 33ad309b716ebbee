import type { Command } from "commander";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";

export function addHelp(program: Command): void {
  program
    .command("help")
    .summary("show the help of a command")
    .description("Show the help of a command, or of the program.")
    .argument("[command...]", "the command, as in `qm help events verify`")
    .action((names: readonly string[]) => named(program, names).help());
}

function named(program: Command, names: readonly string[]): Command {
  let command = program;
  for (const name of names) {
    const below = command.commands.find((each) => each.name() === name);
    if (below === undefined) throw unknown(name, command);
    command = below;
  }
  return command;
}

function unknown(name: string, above: Command): QmError {
  const known = above.createHelp().visibleCommands(above);
  const near = didYouMean(
    name,
    known.map((each) => each.name()),
  );
  return new QmError("invalid_arguments", `unknown command ${quoted(name)}${near}`, {
    hint: "`qm --help` shows what there is.",
  });
}
