import { Argument, type Command } from "commander";
import { toOneLine } from "../../core/display-text.ts";
import { completionShells, findCompletions } from "../completion/candidates.ts";
import type { Context } from "../context.ts";
import { examples } from "../option-parsers.ts";

/** Called by the completion scripts. On an error it prints nothing: a shell prompt is no place for errors. */
export function addCompleteCommand(program: Command, context: Context): void {
  program
    .command("complete", { hidden: true })
    .description("Print the words that could come next, for completion scripts.")
    .argument("[words...]", "the words after `qm` up to the cursor, after --")
    .action(async (words: readonly string[]) => {
      const { out } = context;
      const found = await findCompletions(context, words).catch(() => []);
      if (out.isJson) out.json({ candidates: found.map(([word, meaning]) => ({ word, meaning })) });
      else for (const [word, meaning] of found) out.line(`${word}\t${toOneLine(meaning)}`);
    });
}

type CompletionShell = (typeof completionShells)[number];

/** Each script calls `qm complete`, which prints one candidate and its meaning per line, and nothing for file names. */
const completionScripts: Readonly<Record<CompletionShell, string>> = {
  bash: `# qm completion for bash. Load it with: source <(qm completion bash)
_qm() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <(qm complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _qm qm
`,
  zsh: `#compdef qm
# qm completion for zsh. Load it with: source <(qm completion zsh)
_qm() {
  local line
  local -a candidates
  for line in "\${(@f)$(qm complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] || continue
    candidates+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done
  if (( \${#candidates} )); then
    _describe 'qm' candidates
  else
    _files
  fi
}
if [[ \${funcstack[1]} == _qm ]]; then
  _qm "$@"
elif (( \${+functions[compdef]} )); then
  compdef _qm qm
fi
`,
  fish: `# qm completion for fish. Load it with: qm completion fish | source
function __qm_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l found (qm complete -- $words[2..-1] "$current" 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path "$current"
  end
end
complete -c qm -f -a '(__qm_complete)'
`,
};

export function addCompletionCommand(program: Command, context: Context): void {
  program
    .command("completion")
    .summary("print a completion script for your shell")
    .description(
      "Print a script that completes commands, options, actions, clients, servers, approvals, notes and sessions.",
    )
    .addArgument(new Argument("<shell>", "your shell").choices(completionShells))
    .addHelpText(
      ...examples(
        "source <(qm completion bash)        # in ~/.bashrc",
        "source <(qm completion zsh)         # in ~/.zshrc, after compinit",
        "qm completion fish | source         # in ~/.config/fish/config.fish",
      ),
    )
    .action((shell: CompletionShell) => {
      const script = completionScripts[shell];
      context.out.answer({ shell, script }, script.trimEnd());
    });
}
