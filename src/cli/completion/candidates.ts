import type { Command, Option } from "commander";
import { getOwn, omitUndefined } from "../../core/json.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, toCallerOptions, withWorkspace } from "../context.ts";
import { getCommandPath } from "../global-options.ts";

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

/** A store may have very many events, approvals and notes, so only the newest are offered. */
const LIMIT = 1000;

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
      const named = operands.length === 0 ? findSubcommand(command, word) : undefined;
      if (named === undefined) operands.push(word);
      else command = named;
    }
  }
  return { command, operands, values, option, current: words.at(-1) ?? "" };
}

function findSubcommand(command: Command, word: string): Command | undefined {
  return command.commands.find((each) => [each.name(), ...each.aliases()].includes(word));
}

function listCommandOptions(command: Command, program: Command): readonly Option[] {
  const help = command.createHelp();
  const own = help.visibleOptions(command);
  const inherited = command === program ? [] : help.visibleOptions(program);
  return [...own, ...inherited.filter(({ long }) => own.every((each) => each.long !== long))];
}

async function listCandidates(context: Context, typed: TypedCommand): Promise<Candidates> {
  const { command, operands, values, option, current } = typed;
  if (option !== undefined) return listOptionValues(context, values, option);
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
  if (command.name() === "help") {
    let topic: Command | undefined = context.program;
    for (const operand of operands) topic = topic?.commands.find((each) => each.name() === operand);
    return topic === undefined ? [] : listVisibleCommands(topic);
  }
  const source = getOwn(operandSources, getCommandPath(command));
  const isRepeated = command.registeredArguments[0]?.variadic === true;
  if (source === undefined || (operands.length > 0 && !isRepeated)) return [];
  const found = await source(context, values);
  return found.filter(([word]) => !operands.includes(word));
}

type CandidateSource = (context: Context, values: Values) => Candidates | Promise<Candidates>;

/** The values for the first operand of a command, or for each operand of one that takes several. No source starts a server. */
const operandSources: Readonly<Record<string, CandidateSource>> = {
  list: listCategories,
  describe: listVisibleActions,
  invoke: listVisibleActions,
  preflight: listVisibleActions,
  explain: (context, values) => queryWorkspace(context, values, listAllActions),
  completion: () => completionShells.map((shell) => [shell, "shell"]),
  connect: listClients,
  import: listClients,
  replay: (context, values) => listRecent(context, values, "session", "session"),
  "eval record": (context, values) => listRecent(context, values, "session", "session"),
  "peers show": (context, values) =>
    queryWorkspace(context, values, ({ quartermaster }) =>
      quartermaster.peers.list().map(({ name, kind }) => [name, kind]),
    ),
  ...repeatSource(listApis, ["show", "remove"], "apis"),
  "worlds show": (context, values) =>
    queryWorkspace(context, values, ({ config }) => Object.keys(config.worlds).map((world) => [world, "world"])),
  ...repeatSource(listServers, ["remove", "start", "stop", "logs", "review", "login", "logout"], "servers"),
  ...repeatSource(listApprovals, ["show"], "approvals"),
  ...repeatSource(listPendingApprovals, ["approve", "deny", "link"], "approvals"),
  ...repeatSource(listSessions, ["show", "remove"], "sessions"),
  ...repeatSource(listNotes, ["show", "save", "export", "rm"], "notes"),
  ...repeatSource(listSecrets, ["set", "remove"], "secrets"),
  "models test": listModels,
};

function repeatSource(source: CandidateSource, commands: readonly string[], parent: string) {
  return Object.fromEntries(commands.map((command) => [`${parent} ${command}`, source]));
}

function listCategories(context: Context, values: Values): Promise<Candidates> {
  return queryWorkspace(context, values, ({ quartermaster }) =>
    quartermaster.categories(toCallerOptions(toGlobalOptions(values))).map((category) => [category, "category"]),
  );
}

function listVisibleActions(context: Context, values: Values): Promise<Candidates> {
  return queryWorkspace(context, values, (workspace) => {
    const visible = new Set<string>(workspace.quartermaster.names(toCallerOptions(toGlobalOptions(values))));
    return listAllActions(workspace).filter(([action]) => visible.has(action));
  });
}

async function listClients(): Promise<Candidates> {
  const { clients } = await import("../../mcp/clients/clients.ts");
  return clients.map(({ name, title }) => [name, title]);
}

async function listServers(context: Context, values: Values): Promise<Candidates> {
  const { formatLaunch } = await import("../../mcp/server-spec.ts");
  return queryWorkspace(context, values, ({ servers }) =>
    servers.list().map(({ spec }) => [spec.name, formatLaunch(spec.launch)]),
  );
}

function listApis(context: Context, values: Values): Promise<Candidates> {
  return queryWorkspace(context, values, ({ config }) =>
    Object.entries(config.apis).map(([name, { server }]) => [name, server]),
  );
}

function listApprovals(context: Context, values: Values, state?: readonly ["pending"]): Promise<Candidates> {
  return queryLedger(context, values, async ({ quartermaster }) => {
    const found = await quartermaster.approvals.list({ limit: LIMIT, ...omitUndefined({ state }) });
    return found.map(({ id, action }) => [id, action]);
  });
}

function listPendingApprovals(context: Context, values: Values): Promise<Candidates> {
  return listApprovals(context, values, ["pending"]);
}

function listNotes(context: Context, values: Values): Promise<Candidates> {
  return queryLedger(context, values, async ({ quartermaster }) => {
    const { items } = await quartermaster.notes.list({ limit: LIMIT });
    return items.map(({ handle, name, origin }) => [handle, name ?? origin.action]);
  });
}

function listSessions(context: Context, values: Values): Promise<Candidates> {
  return queryLedger(context, values, async ({ quartermaster }) => {
    const found = await quartermaster.sessions.list({ limit: LIMIT });
    return found.map(({ session, title }) => [session, title]);
  });
}

function listSecrets(context: Context, values: Values): Promise<Candidates> {
  return queryLedger(context, values, async ({ secrets }) => (await secrets.names()).map((name) => [name, "secret"]));
}

function listModels(context: Context, values: Values): Promise<Candidates> {
  return queryLedger(context, values, async ({ config }) =>
    Object.entries(config.models).map(([name, { model }]) => [name, model]),
  );
}

async function listOptionValues(context: Context, values: Values, option: Option): Promise<Candidates> {
  const name = option.attributeName();
  if (option.argChoices !== undefined) return option.argChoices.map((choice) => [choice, option.description]);
  if (name === "actor")
    return queryWorkspace(context, values, ({ config }) => Object.keys(config.actors).map((actor) => [actor, "actor"]));
  if (name === "action") return queryWorkspace(context, values, listAllActions);
  if (name === "category") return listCategories(context, values);
  if (name === "session" || name === "tenant") return listRecent(context, values, name, name);
  if (name === "call") return listRecent(context, values, "callId", name);
  if (name !== "type") return [];
  const { eventShapes } = await import("../../core/event-shapes.ts");
  return Object.keys(eventShapes).map((type) => [type, "event"]);
}

function listAllActions({ quartermaster }: Workspace): Candidates {
  return quartermaster.inventory().map(({ name, summary }) => [name, summary]);
}

/** The values in the newest events; a long ledger has too many. */
function listRecent(context: Context, values: Values, key: "session" | "tenant" | "callId", meaning: string) {
  return queryLedger(context, values, async ({ quartermaster }) => {
    const events = await quartermaster.ledger.read({ limit: LIMIT });
    const found = new Set(events.toReversed().flatMap((event) => event[key] ?? []));
    return [...found].map((value): CompletionCandidate => [value, meaning]);
  });
}

function queryLedger(context: Context, values: Values, work: (workspace: Workspace) => Promise<Candidates>) {
  return withWorkspace(createTypedContext(context, values), "ledger", work);
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
