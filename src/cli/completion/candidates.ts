import type { Command, Option } from "commander";
import { omitUndefined } from "../../core/json.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, toCallerOptions, withWorkspace } from "../context.ts";

export const completionShells = ["bash", "zsh", "fish"] as const;

interface TypedCommand {
  readonly command: Command;
  readonly operands: readonly string[];
  /** The option values so far, by attribute name. */
  readonly values: Readonly<Record<string, string>>;
  readonly option: Option | undefined;
  readonly current: string;
}

export type CompletionCandidate = readonly [word: string, meaning: string];
type Candidates = readonly CompletionCandidate[];
type Values = TypedCommand["values"];

/** The candidates for the last word. Empty: a file name, or unknown. */
export async function findCompletions(context: Context, words: readonly string[]): Promise<Candidates> {
  const typed = parseTypedWords(context.program, words);
  const found = await listCandidates(context, typed);
  // Without names that a shell would have to quote, or would act on.
  return found.filter(([word]) => word.startsWith(typed.current) && /^[\p{L}\p{N}\p{M}_.:/@+-]+$/u.test(word));
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
      option = listCommandOptions(command, program).find(
        ({ long, short, required, optional }) => (long === word || short === word) && (required || optional),
      );
    } else {
      const named = operands.length === 0 ? command.commands.find((each) => each.name() === word) : undefined;
      if (named === undefined) operands.push(word);
      else command = named;
    }
  }
  return { command, operands, values, option, current: words.at(-1) ?? "" };
}

function listCommandOptions(command: Command, program: Command): readonly Option[] {
  const help = command.createHelp();
  const own = help.visibleOptions(command);
  const inherited = command === program ? [] : help.visibleOptions(program);
  return [...own, ...inherited.filter(({ long }) => own.every((each) => each.long !== long))];
}

async function listCandidates(context: Context, typed: TypedCommand): Promise<Candidates> {
  const { command, operands, values, option, current } = typed;
  if (option !== undefined) return listOptionValues(context, values, option.attributeName());
  if (current.startsWith("-"))
    return listCommandOptions(command, context.program).flatMap(({ long, description }) =>
      long ? [[long, description]] : [],
    );
  const subcommands = operands.length > 0 ? [] : listVisibleCommands(command);
  return [...subcommands, ...(await listOperands(context, typed))];
}

function listVisibleCommands(command: Command): Candidates {
  const commands = command.createHelp().visibleCommands(command);
  return commands.map((each) => [each.name(), each.summary() || each.description()]);
}

async function listOperands(context: Context, { command, operands, values }: TypedCommand): Promise<Candidates> {
  const name = command.name();
  if (name === "help") {
    let topic: Command | undefined = context.program;
    for (const operand of operands) topic = topic?.commands.find((each) => each.name() === operand);
    return topic === undefined ? [] : listVisibleCommands(topic);
  }
  const caller = toCallerOptions(toGlobalOptions(values));
  if (name === "list")
    return queryWorkspace(context, values, ({ quartermaster }) =>
      quartermaster.categories(caller).map((category) => [category, "category"]),
    );
  if (operands.length > 0) return [];
  if (name === "completion") return completionShells.map((shell) => [shell, "shell"]);
  if (name === "explain") return queryWorkspace(context, values, listAllActions);
  if (name !== "describe" && name !== "invoke") return [];
  return queryWorkspace(context, values, (workspace) => {
    const visible = new Set<string>(workspace.quartermaster.names(caller));
    return listAllActions(workspace).filter(([action]) => visible.has(action));
  });
}

async function listOptionValues(context: Context, values: Values, option: string): Promise<Candidates> {
  if (option === "actor")
    return queryWorkspace(context, values, ({ config }) => Object.keys(config.actors).map((actor) => [actor, "actor"]));
  if (option === "action") return queryWorkspace(context, values, listAllActions);
  if (option === "session" || option === "tenant") return listRecent(context, values, option, option);
  if (option === "call") return listRecent(context, values, "callId", option);
  if (option !== "type") return [];
  const { eventShapes } = await import("../../core/events.ts");
  return Object.keys(eventShapes).map((type) => [type, "event"]);
}

function listAllActions({ quartermaster }: Workspace): Candidates {
  return quartermaster.inventory().map(({ name, summary }) => [name, summary]);
}

/** The values in the newest events; a long ledger has too many. */
function listRecent(context: Context, values: Values, key: "session" | "tenant" | "callId", meaning: string) {
  return withWorkspace(createTypedContext(context, values), "ledger", async ({ quartermaster }) => {
    const events = await quartermaster.ledger.read({ limit: 1000 });
    const found = new Set(events.toReversed().flatMap((event) => event[key] ?? []));
    return [...found].map((value): CompletionCandidate => [value, meaning]);
  });
}

function queryWorkspace(context: Context, values: Values, work: (workspace: Workspace) => Candidates) {
  return withWorkspace(createTypedContext(context, values), "looking", work);
}

/** With the global options typed so far, instead of those of `qm complete` itself. */
function createTypedContext(context: Context, values: Values): Context {
  return { ...context, out: { ...context.out, note: () => {} }, globals: toGlobalOptions(values) };
}

function toGlobalOptions({ config, actor, tenant, user }: Values): Context["globals"] {
  return { color: false, ...omitUndefined({ config, actor, tenant, user }) };
}
