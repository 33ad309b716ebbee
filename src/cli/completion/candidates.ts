import type { Command, Option } from "commander";
import type { Workspace } from "../../workspace/workspace.ts";
import { type CommandContext, toCallerOptions, withWorkspace } from "../context.ts";

export const completionShells = ["bash", "zsh", "fish"] as const;

/** The words before the cursor, read as far as they can be. */
interface TypedCommand {
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

function parseTypedWords(program: Command, words: readonly string[]): TypedCommand {
  let command = program;
  let option: Option | undefined;
  const operands: string[] = [];
  const values: Record<string, string> = {};
  for (const word of words.slice(0, -1)) {
    if (option !== undefined) {
      values[option.attributeName()] = word;
      option = undefined;
    } else if (word.startsWith("-")) {
      option = findCommandOption(command, program, word);
    } else {
      const named = operands.length === 0 ? command.commands.find((each) => each.name() === word) : undefined;
      if (named === undefined) operands.push(word);
      else command = named;
    }
  }
  return { command, operands, values, option, current: words.at(-1) ?? "" };
}

/** Everything that may start with a dash here. */
function listCommandOptions(command: Command, program: Command): readonly Option[] {
  const help = command.createHelp();
  const own = help.visibleOptions(command);
  const inherited = command === program ? [] : help.visibleOptions(program);
  return [...own, ...inherited.filter(({ long }) => own.every((each) => each.long !== long))];
}

function findCommandOption(command: Command, program: Command, word: string): Option | undefined {
  const [flag = "", value] = word.split("=", 2);
  if (value !== undefined) return undefined;
  return listCommandOptions(command, program).find(
    (each) => (each.long === flag || each.short === flag) && (each.required || each.optional),
  );
}

/** A word that could stand here, and what it means. */
export type CompletionCandidate = readonly [word: string, meaning: string];

/** What could stand in place of the last word. Nothing: files, or nobody knows. */
export async function findCompletions(
  context: CommandContext,
  words: readonly string[],
): Promise<readonly CompletionCandidate[]> {
  const typed = parseTypedWords(context.program, words);
  const found = await listCandidates(context, typed);
  return found.filter(([word]) => word.startsWith(typed.current) && isTypable(word));
}

/** A name that a shell would have to quote, or would act on, is better not offered. */
function isTypable(word: string): boolean {
  return /^[\p{L}\p{N}\p{M}_.:/@+-]+$/u.test(word);
}

async function listCandidates(context: CommandContext, typed: TypedCommand): Promise<readonly CompletionCandidate[]> {
  const { command, operands, option, current } = typed;
  if (option !== undefined) return listOptionValues(context, typed, option.attributeName());
  if (current.startsWith("-"))
    return listCommandOptions(command, context.program).flatMap(({ long, description }) =>
      long ? [[long, description]] : [],
    );
  const subcommands: readonly CompletionCandidate[] = operands.length > 0 ? [] : listVisibleCommands(command);
  return [...subcommands, ...(await listOperands(context, typed))];
}

function listVisibleCommands(command: Command): readonly CompletionCandidate[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .map((each) => [each.name(), each.summary() || each.description()]);
}

async function listOperands(
  context: CommandContext,
  { command, operands, values }: TypedCommand,
): Promise<readonly CompletionCandidate[]> {
  switch (command.name()) {
    case "list":
      return queryWorkspace(context, values, (workspace) =>
        workspace.quartermaster.categories(toCallerOptions(toGlobalOptions(values))).map((name) => [name, "category"]),
      );
    case "describe":
    case "invoke":
      return operands.length > 0
        ? []
        : queryWorkspace(context, values, (workspace) => listVisibleActions(workspace, values));
    case "explain":
      return operands.length > 0 ? [] : queryWorkspace(context, values, listAllActions);
    case "completion":
      return operands.length > 0 ? [] : completionShells.map((shell) => [shell, "shell"]);
    case "help":
      return listHelpTopics(context.program, operands);
    default:
      return [];
  }
}

function listHelpTopics(program: Command, names: readonly string[]): readonly CompletionCandidate[] {
  let command: Command | undefined = program;
  for (const name of names) command = command?.commands.find((each) => each.name() === name);
  return command === undefined ? [] : listVisibleCommands(command);
}

async function listOptionValues(
  context: CommandContext,
  { values }: TypedCommand,
  option: string,
): Promise<readonly CompletionCandidate[]> {
  switch (option) {
    case "actor":
      return queryWorkspace(context, values, ({ config }) =>
        Object.keys(config.actors).map((actor) => [actor, "actor"]),
      );
    case "action":
      return queryWorkspace(context, values, listAllActions);
    case "session":
    case "tenant":
    case "call":
      return listRecent(context, values, option === "call" ? "callId" : option);
    case "type": {
      const { eventShapes } = await import("../../core/events.ts");
      return Object.keys(eventShapes).map((type) => [type, "event"]);
    }
    default:
      return [];
  }
}

function listVisibleActions(workspace: Workspace, values: TypedCommand["values"]): readonly CompletionCandidate[] {
  const visible = new Set<string>(workspace.quartermaster.names(toCallerOptions(toGlobalOptions(values))));
  return listAllActions(workspace).filter(([name]) => visible.has(name));
}

function listAllActions({ quartermaster }: Workspace): readonly CompletionCandidate[] {
  return quartermaster.inventory().map(({ name, summary }) => [name, summary]);
}

const RECENT = 1000;

/** Out of the newest events: a long ledger has too many to be offered, and too many to be looked at. */
function listRecent(context: CommandContext, values: TypedCommand["values"], key: "session" | "tenant" | "callId") {
  return withWorkspace(createTypedContext(context, values), "ledger", async ({ quartermaster }) => {
    const events = await quartermaster.ledger.read({ limit: RECENT });
    const found = new Set(events.toReversed().flatMap((event) => event[key] ?? []));
    return [...found].map((value): CompletionCandidate => [value, key === "callId" ? "call" : key]);
  });
}

function queryWorkspace(
  context: CommandContext,
  values: TypedCommand["values"],
  work: (workspace: Workspace) => readonly CompletionCandidate[],
): Promise<readonly CompletionCandidate[]> {
  return withWorkspace(createTypedContext(context, values), "looking", work);
}

/** The options that were typed so far count, not those of `qm complete` itself. */
function createTypedContext(context: CommandContext, values: TypedCommand["values"]): CommandContext {
  return { ...context, out: { ...context.out, note: () => {} }, globals: toGlobalOptions(values) };
}

function toGlobalOptions({ config, actor, tenant, user }: TypedCommand["values"]): CommandContext["globals"] {
  return {
    color: false,
    ...(config === undefined ? {} : { config }),
    ...(actor === undefined ? {} : { actor }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user }),
  };
}
