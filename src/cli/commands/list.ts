import type { Command } from "commander";
import type { ActionList, ListedAction, ListQuery } from "../../surface/universal/browse-actions.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type CommandContext, toCallerOptions, withWorkspace } from "../context.ts";
import { createWholeNumberParser, formatExamples } from "../option-parsers.ts";
import { escapeUnsafe } from "../terminal-text.ts";

export function addDirectoryCommand(program: Command, context: CommandContext): void {
  program
    .command("directory")
    .summary("show the directory a prompt gets")
    .description("Show what a caller may use, in groups, as a prompt with the directory switched on gets it.")
    .addHelpText("after", formatExamples("qm directory", "qm directory --actor reviewer --json"))
    .action(() =>
      withWorkspace(context, "looking", ({ quartermaster }) => {
        const directory = quartermaster.directory(toCallerOptions(context.globals));
        if (context.out.isJson) context.out.json(directory);
        else
          context.out.line(
            directory.text === "" ? "There is nothing this caller may use." : escapeUnsafe(directory.text),
          );
      }),
    );
}

interface ListOptions {
  readonly filter?: string;
  readonly offset: number;
  readonly limit: number;
  readonly all?: boolean;
}

/** The most that one answer of the catalog holds. */
const PAGE = 50;

export function addListCommand(program: Command, context: CommandContext): void {
  program
    .command("list")
    .summary("list the actions a caller may use")
    .description("List the actions a caller may use, by name.")
    .argument("[category...]", "only these categories")
    .option("--filter <text>", "only what has this in its name or description")
    .option("--offset <n>", "skip so many", createWholeNumberParser(0), 0)
    .option("--limit <n>", "show so many", createWholeNumberParser(1), PAGE)
    .option("--all", "show every one")
    .addHelpText("after", formatExamples("qm list", "qm list file --filter write", "qm list --actor reviewer --json"))
    .action((categories: readonly string[], options: ListOptions) =>
      withWorkspace(context, "looking", (workspace) => runList(context, workspace, categories, options)),
    );
}

function runList(
  context: CommandContext,
  workspace: Workspace,
  category: readonly string[],
  options: ListOptions,
): void {
  const { out, globals } = context;
  const { filter, offset, all = false } = options;
  const query: ListQuery = { category, offset, ...(filter === undefined ? {} : { filter }) };
  const found = collectPages(workspace, query, all ? Number.POSITIVE_INFINITY : options.limit, globals);
  if (out.isJson) out.json(found);
  else if (found.items.length === 0) printNoMatch(context, found, workspace);
  else showActions(context, workspace, found, offset);
}

function showActions({ out, globals }: CommandContext, workspace: Workspace, found: ActionList, offset: number): void {
  const getEffect = (name: string) => workspace.quartermaster.describe(name, toCallerOptions(globals)).metadata.purity;
  out.table(
    ["action", "effect", "what it does"],
    found.items.map((item) => [item.qualified_name, getEffect(item.qualified_name), getListedSummary(item)]),
  );
  const end = offset + found.items.length;
  if (end - offset < found.total) {
    out.line();
    const more = found.next_offset === undefined ? "" : ` More: --offset ${found.next_offset}, or --all.`;
    out.line(out.dim(`${offset + 1} to ${end} of ${found.total}.${more}`));
  }
}

/** As many as are wanted, page by page. */
function collectPages(
  { quartermaster }: Workspace,
  query: ListQuery,
  wanted: number,
  globals: CommandContext["globals"],
): ActionList {
  const items: ListedAction[] = [];
  for (let offset = query.offset ?? 0; ; ) {
    const limit = Math.min(PAGE, wanted - items.length);
    const {
      items: page,
      next_offset,
      total,
      hint,
    } = quartermaster.list({ ...query, offset, limit }, toCallerOptions(globals));
    items.push(...page);
    if (next_offset === undefined || items.length >= wanted) {
      return {
        items,
        total,
        ...(next_offset === undefined ? {} : { next_offset }),
        ...(hint === undefined ? {} : { hint }),
      };
    }
    offset = next_offset;
  }
}

function printNoMatch(
  { out, globals }: CommandContext,
  { total, hint }: ActionList,
  { quartermaster }: Workspace,
): void {
  out.line("No action fits.");
  const isEmpty = quartermaster.names(toCallerOptions(globals)).length === 0;
  if (total > 0 || !isEmpty) out.line(hint ?? "");
  else
    out.line(
      `Actor ${globals.actor ?? "default"} sees none: \`qm doctor\` shows what there is, \`qm explain <action>\` who hides it.`,
    );
}

function getListedSummary({ short_description, description = "" }: ListedAction): string {
  return short_description ?? description;
}
