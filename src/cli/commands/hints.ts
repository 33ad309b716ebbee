import type { Command } from "commander";
import { type Context, callerOf, withWorkspace } from "../context.ts";
import { examples } from "../options.ts";
import { plain } from "../text.ts";

export function addHints(program: Command, context: Context): void {
  program
    .command("hints")
    .summary("show the shortlist a prompt gets for a task")
    .description("Show the shortlist of actions that a prompt gets for a task, as the model reads it.")
    .argument("<task...>", "what the model is asked to do")
    .addHelpText("after", examples("qm hints change the title of the readme", "qm hints --actor reviewer find a file"))
    .action((words: readonly string[]) =>
      withWorkspace(context, "looking", async ({ quartermaster }) => {
        const text = await quartermaster.hints(words.join(" "), callerOf(context.globals));
        if (context.out.isJson) context.out.json({ text });
        else context.out.line(text === "" ? "No action fits, so a prompt gets no shortlist." : plain(text));
      }),
    );
}
