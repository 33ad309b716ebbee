import type { Command } from "commander";
import { type Context, callerOf, withWorkspace } from "../context.ts";
import { examples } from "../options.ts";
import { plain } from "../text.ts";

export function addDirectory(program: Command, context: Context): void {
  program
    .command("directory")
    .summary("show the directory a prompt gets")
    .description("Show what a caller may use, in groups, as a prompt with the directory switched on gets it.")
    .addHelpText("after", examples("qm directory", "qm directory --actor reviewer --json"))
    .action(() =>
      withWorkspace(context, "looking", ({ quartermaster }) => {
        const directory = quartermaster.directory(callerOf(context.globals));
        if (context.out.isJson) context.out.json(directory);
        else context.out.line(directory.text === "" ? "There is nothing this caller may use." : plain(directory.text));
      }),
    );
}
