export const shells = ["bash", "zsh", "fish"] as const;

export type Shell = (typeof shells)[number];

/**
 * The script that a shell loads. It holds no names: each time it asks `qm complete`, which answers a candidate and its
 * meaning a line, separated by a tab, and nothing where files belong.
 */
export const completionScripts: Readonly<Record<Shell, string>> = {
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
