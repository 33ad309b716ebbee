import type { Command, Option } from "commander";

/** The words before the cursor, read as far as they can be. */
export interface Typed {
  /** The innermost command that was named. */
  readonly command: Command;
  /** What it was given so far that is neither option nor value of one. */
  readonly operands: readonly string[];
  /** The values of options so far, by their name in the code. */
  readonly values: Readonly<Record<string, string>>;
  /** The option whose value is being typed. */
  readonly option: Option | undefined;
  /** The word that is being typed. */
  readonly current: string;
}

export function readWords(program: Command, words: readonly string[]): Typed {
  let command = program;
  let option: Option | undefined;
  const operands: string[] = [];
  const values: Record<string, string> = {};
  for (const word of words.slice(0, -1)) {
    if (option !== undefined) {
      values[option.attributeName()] = word;
      option = undefined;
    } else if (word.startsWith("-")) {
      option = optionOf(command, program, word);
    } else {
      const named = operands.length === 0 ? command.commands.find((each) => each.name() === word) : undefined;
      if (named === undefined) operands.push(word);
      else command = named;
    }
  }
  return { command, operands, values, option, current: words.at(-1) ?? "" };
}

/** Everything that may start with a dash here. */
export function optionsOf(command: Command, program: Command): readonly Option[] {
  const help = command.createHelp();
  const own = help.visibleOptions(command);
  const inherited = command === program ? [] : help.visibleOptions(program);
  return [...own, ...inherited.filter(({ long }) => own.every((each) => each.long !== long))];
}

function optionOf(command: Command, program: Command, word: string): Option | undefined {
  const [flag = "", value] = word.split("=", 2);
  if (value !== undefined) return undefined;
  return optionsOf(command, program).find(
    (each) => (each.long === flag || each.short === flag) && (each.required || each.optional),
  );
}
