import { Argument, type Command } from "commander";
import { completionScripts, type Shell, shells } from "../completion/scripts.ts";
import type { Context } from "../context.ts";
import { examples } from "../options.ts";

export function addCompletion(program: Command, context: Context): void {
  program
    .command("completion")
    .summary("print a completion script for your shell")
    .description("Print a script that completes commands, options, actions, categories and sessions.")
    .addArgument(new Argument("<shell>", "your shell").choices(shells))
    .addHelpText(
      "after",
      examples(
        "source <(qm completion bash)        # in ~/.bashrc",
        "source <(qm completion zsh)         # in ~/.zshrc, after compinit",
        "qm completion fish | source         # in ~/.config/fish/config.fish",
      ),
    )
    .action((shell: Shell) => {
      const script = completionScripts[shell];
      if (context.out.isJson) context.out.json({ shell, script });
      else context.io.stdout.write(script);
    });
}
