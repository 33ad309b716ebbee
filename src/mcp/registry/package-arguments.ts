import type { Answers } from "./answers.ts";
import type { ReferringText } from "./referring-text.ts";
import type { Argument } from "./server-json.ts";

/** Arguments of a server.json as the items of a command line. Named ones are two items, a name and a value. */
export function argumentsOf(args: readonly Argument[], answers: Answers): readonly ReferringText[] {
  return args.flatMap((argument, at) =>
    argument.type === "named" && argument.name !== undefined
      ? namedOf({ ...argument, name: argument.name }, answers)
      : positionalOf(argument, answers, at),
  );
}

function positionalOf(argument: Argument, answers: Answers, at: number): readonly ReferringText[] {
  const asked = { key: argument.valueHint ?? argument.name ?? `argument_${at + 1}`, where: "argument" } as const;
  if (argument.isRepeated) return answers.values(argument, asked);
  const text = answers.value(argument, asked);
  return text === undefined ? [] : [text];
}

function namedOf(argument: Argument & { readonly name: string }, answers: Answers): readonly ReferringText[] {
  const { name } = argument;
  const also = [name.replace(/^-+/, "")];
  if (isSwitch(argument)) return answers.given({ key: name, also }) === "false" ? [] : [[name]];
  const asked = { key: name, where: "argument", also } as const;
  const one = argument.isRepeated ? undefined : answers.value(argument, asked);
  const values = argument.isRepeated ? answers.values(argument, asked) : one === undefined ? [] : [one];
  return values.flatMap((value): ReferringText[] => [[name], value]);
}

/** Nothing says that it takes a value: it stands for itself, and is there unless somebody says `false`. */
function isSwitch({ value, default: preset, placeholder, choices, valueHint, format, variables }: Argument): boolean {
  const takes = [value, preset, placeholder, choices, valueHint, variables].some((part) => part !== undefined);
  return !takes && (format === undefined || format === "boolean");
}
