import type { Command, Option } from "commander";
import { createUsageError } from "./exit-codes.ts";

const CALLER = ["config", "actor", "session", "tenant", "user"];
const OWNER = ["config", "actor", "tenant", "user"];
const RECORDED = ["config", "session"];

/** The global options that a command uses. A command that is not listed uses `--config` alone. */
export const usedOptions: Readonly<Record<string, readonly string[]>> = {
  list: CALLER,
  search: CALLER,
  describe: CALLER,
  invoke: CALLER,
  explain: CALLER,
  chat: CALLER,
  run: CALLER,
  "sessions list": OWNER,
  "sessions show": OWNER,
  "sessions remove": OWNER,
  "approvals list": CALLER,
  "approvals watch": CALLER,
  events: CALLER,
  "events verify": RECORDED,
  replay: RECORDED,
  "eval record": RECORDED,
  "notes list": CALLER,
  "notes search": CALLER,
  "notes export": CALLER,
  "notes import": CALLER,
  "notes rm": CALLER,
  "memory list": CALLER,
  "memory show": CALLER,
  "memory history": CALLER,
  "memory forget": CALLER,
  "memory export": CALLER,
  "memory import": CALLER,
  "servers add": CALLER,
  "servers remove": CALLER,
  preflight: CALLER,
  mcp: ["config", "actor"],
  prompt: CALLER,
  directory: CALLER,
  hints: CALLER,
  tour: [],
  completion: [],
};

/** The names of a command and of those it belongs to, as a user types them after `qm`: `servers remove`. */
export function getCommandPath(command: Command): string {
  const { parent } = command;
  return parent?.parent ? `${getCommandPath(parent)} ${command.name()}` : command.name();
}

function isUsed(command: Command, option: Option): boolean {
  const used = usedOptions[getCommandPath(command)] ?? ["config"];
  const name = option.attributeName();
  return !CALLER.includes(name) || used.includes(name);
}

/** The global options in the help of a command. The program itself lists them as its own. */
export function listUsedOptions(program: Command, command: Command): Option[] {
  if (command === program) return [];
  return program.options.filter((option) => isUsed(command, option));
}

/** Throws if an option was given that the command would ignore: one of the program, or of the command it belongs to. */
export function refuseUnusedOptions(program: Command, command: Command): void {
  for (let owner = command.parent; owner !== null; owner = owner.parent) {
    const { options } = owner;
    const given = options.filter((option) => owner.getOptionValueSource(option.attributeName()) === "cli");
    const isShared = ({ long }: Option) => command.options.some((own) => own.long === long);
    const unused = given.find((option) => (owner === program ? !isUsed(command, option) : !isShared(option)));
    if (unused === undefined) continue;
    const name = `qm ${getCommandPath(command)}`;
    throw createUsageError(`\`${name}\` has no option ${unused.long}`, `Run \`${name} --help\` for its options.`);
  }
}
