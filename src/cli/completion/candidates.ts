import type { Command } from "commander";
import type { Workspace } from "../../workspace.ts";
import { type Context, callerOf, withWorkspace } from "../context.ts";
import { shells } from "./scripts.ts";
import { optionsOf, readWords, type Typed } from "./words.ts";

/** A word that could stand here, and what it means. */
export type Candidate = readonly [word: string, meaning: string];

/** What could stand in place of the last word. Nothing: files, or nobody knows. */
export async function candidatesFor(context: Context, words: readonly string[]): Promise<readonly Candidate[]> {
  const typed = readWords(context.program, words);
  const found = await candidatesAt(context, typed);
  return found.filter(([word]) => word.startsWith(typed.current) && isTypable(word));
}

/** A name that a shell would have to quote, or would act on, is better not offered. */
function isTypable(word: string): boolean {
  return /^[\p{L}\p{N}\p{M}_.:/@+-]+$/u.test(word);
}

async function candidatesAt(context: Context, typed: Typed): Promise<readonly Candidate[]> {
  const { command, operands, option, current } = typed;
  if (option !== undefined) return optionValues(context, typed, option.attributeName());
  if (current.startsWith("-"))
    return optionsOf(command, context.program).flatMap(({ long, description }) => (long ? [[long, description]] : []));
  const subcommands: readonly Candidate[] = operands.length > 0 ? [] : visibleCommands(command);
  return [...subcommands, ...(await operandsOf(context, typed))];
}

function visibleCommands(command: Command): readonly Candidate[] {
  return command
    .createHelp()
    .visibleCommands(command)
    .map((each) => [each.name(), each.summary() || each.description()]);
}

async function operandsOf(context: Context, { command, operands, values }: Typed): Promise<readonly Candidate[]> {
  switch (command.name()) {
    case "list":
      return looking(context, values, (workspace) =>
        workspace.quartermaster.categories(callerOf(globalsOf(values))).map((name) => [name, "category"]),
      );
    case "describe":
    case "invoke":
      return operands.length > 0 ? [] : looking(context, values, (workspace) => visibleActions(workspace, values));
    case "explain":
      return operands.length > 0 ? [] : looking(context, values, allActions);
    case "completion":
      return operands.length > 0 ? [] : shells.map((shell) => [shell, "shell"]);
    case "help":
      return helpedCommands(context.program, operands);
    default:
      return [];
  }
}

function helpedCommands(program: Command, names: readonly string[]): readonly Candidate[] {
  let command: Command | undefined = program;
  for (const name of names) command = command?.commands.find((each) => each.name() === name);
  return command === undefined ? [] : visibleCommands(command);
}

async function optionValues(context: Context, { values }: Typed, option: string): Promise<readonly Candidate[]> {
  switch (option) {
    case "actor":
      return looking(context, values, ({ config }) => Object.keys(config.actors).map((actor) => [actor, "actor"]));
    case "action":
      return looking(context, values, allActions);
    case "session":
    case "tenant":
    case "call":
      return recent(context, values, option === "call" ? "callId" : option);
    case "type": {
      const { eventShapes } = await import("../../core/events.ts");
      return Object.keys(eventShapes).map((type) => [type, "event"]);
    }
    default:
      return [];
  }
}

function visibleActions(workspace: Workspace, values: Typed["values"]): readonly Candidate[] {
  const visible = new Set<string>(workspace.quartermaster.names(callerOf(globalsOf(values))));
  return allActions(workspace).filter(([name]) => visible.has(name));
}

function allActions({ quartermaster }: Workspace): readonly Candidate[] {
  return quartermaster.inventory().map(({ name, summary }) => [name, summary]);
}

const RECENT = 1000;

/** Out of the newest events: a long ledger has too many to be offered, and too many to be looked at. */
function recent(context: Context, values: Typed["values"], key: "session" | "tenant" | "callId") {
  return withWorkspace(typedContext(context, values), "ledger", async ({ quartermaster }) => {
    const events = await quartermaster.ledger.read({ limit: RECENT });
    const found = new Set(events.toReversed().flatMap((event) => event[key] ?? []));
    return [...found].map((value): Candidate => [value, key === "callId" ? "call" : key]);
  });
}

function looking(
  context: Context,
  values: Typed["values"],
  work: (workspace: Workspace) => readonly Candidate[],
): Promise<readonly Candidate[]> {
  return withWorkspace(typedContext(context, values), "looking", work);
}

/** The options that were typed so far count, not those of `qm complete` itself. */
function typedContext(context: Context, values: Typed["values"]): Context {
  return { ...context, out: { ...context.out, note: () => {} }, globals: globalsOf(values) };
}

function globalsOf({ config, actor, tenant, user }: Typed["values"]): Context["globals"] {
  return {
    color: false,
    ...(config === undefined ? {} : { config }),
    ...(actor === undefined ? {} : { actor }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user }),
  };
}
