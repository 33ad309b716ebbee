import type { Command } from "commander";
import type { ActionList, ListedAction, ListQuery } from "../../surface/universal/list-actions.ts";
import type { Workspace } from "../../workspace.ts";
import { type Context, callerOf, withWorkspace } from "../context.ts";
import { examples, wholeNumber } from "../options.ts";

interface ListOptions {
  readonly filter?: string;
  readonly offset: number;
  readonly limit: number;
  readonly all?: boolean;
}

/** The most that one answer of the catalog holds. */
const PAGE = 50;

export function addList(program: Command, context: Context): void {
  program
    .command("list")
    .summary("list the actions a caller may use")
    .description("List the actions a caller may use, by name.")
    .argument("[category...]", "only these categories")
    .option("--filter <text>", "only what has this in its name or description")
    .option("--offset <n>", "skip so many", wholeNumber(0), 0)
    .option("--limit <n>", "show so many", wholeNumber(1), PAGE)
    .option("--all", "show every one")
    .addHelpText("after", examples("qm list", "qm list file --filter write", "qm list --actor reviewer --json"))
    .action((categories: readonly string[], options: ListOptions) =>
      withWorkspace(context, "looking", (workspace) => list(context, workspace, categories, options)),
    );
}

function list(context: Context, workspace: Workspace, category: readonly string[], options: ListOptions): void {
  const { out, globals } = context;
  const { filter, offset, all = false } = options;
  const query: ListQuery = { category, offset, ...(filter === undefined ? {} : { filter }) };
  const found = gathered(workspace, query, all ? Number.POSITIVE_INFINITY : options.limit, globals);
  if (out.isJson) out.json(found);
  else if (found.items.length === 0) sayNothingFits(context, found, workspace);
  else show(context, workspace, found, offset);
}

function show({ out, globals }: Context, workspace: Workspace, found: ActionList, offset: number): void {
  const effectOf = (name: string) => workspace.quartermaster.describe(name, callerOf(globals)).metadata.purity;
  out.table(
    ["action", "effect", "what it does"],
    found.items.map((item) => [item.qualified_name, effectOf(item.qualified_name), summary(item)]),
  );
  const end = offset + found.items.length;
  if (end - offset < found.total) {
    out.line();
    const more = found.next_offset === undefined ? "" : ` More: --offset ${found.next_offset}, or --all.`;
    out.line(out.dim(`${offset + 1} to ${end} of ${found.total}.${more}`));
  }
}

/** As many as are wanted, page by page. */
function gathered(
  { quartermaster }: Workspace,
  query: ListQuery,
  wanted: number,
  globals: Context["globals"],
): ActionList {
  const items: ListedAction[] = [];
  for (let offset = query.offset ?? 0; ; ) {
    const limit = Math.min(PAGE, wanted - items.length);
    const {
      items: page,
      next_offset,
      total,
      hint,
    } = quartermaster.list({ ...query, offset, limit }, callerOf(globals));
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

function sayNothingFits({ out, globals }: Context, { total, hint }: ActionList, { quartermaster }: Workspace): void {
  out.line("No action fits.");
  const isEmpty = quartermaster.names(callerOf(globals)).length === 0;
  if (total > 0 || !isEmpty) out.line(hint ?? "");
  else
    out.line(
      `Actor ${globals.actor ?? "default"} sees none: \`qm doctor\` shows what there is, \`qm explain <action>\` who hides it.`,
    );
}

function summary({ short_description, description = "" }: ListedAction): string {
  return short_description ?? description;
}
