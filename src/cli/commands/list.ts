import type { Command } from "commander";
import { escapeUnsafe } from "../../core/display-text.ts";
import { omitUndefined } from "../../core/json.ts";
import type { ActionList, ListedAction, ListQuery } from "../../surface/universal/browse-actions.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace, toCallerOptions, withWorkspace } from "../context.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";

type ListOptions = Readonly<{ filter?: string; offset: number; limit: number; all?: boolean }>;

/** The catalog returns at most this many actions at once. */
const PAGE = 50;

export function addListCommand(program: Command, context: Context): void {
  program
    .command("list")
    .summary("list the actions a caller may use")
    .description("List the actions a caller may use, by name.")
    .argument("[category...]", "only these categories")
    .option("--filter <text>", "only actions with this text in their name or description")
    .option("--offset <n>", "skip the first N", createWholeNumberParser(0), 0)
    .option("--limit <n>", "show at most N", createWholeNumberParser(1), PAGE)
    .option("--all", "show all actions")
    .addHelpText(...examples("qm list", "qm list file --filter write", "qm list --actor reviewer --json"))
    .action(inWorkspace(context, "looking", runList));
}

export function addDirectoryCommand(program: Command, context: Context): void {
  program
    .command("directory")
    .summary("show the action directory of a prompt")
    .description("Show the grouped directory of actions that a prompt gets when search.directory is on.")
    .addHelpText(...examples("qm directory", "qm directory --actor reviewer --json"))
    .action(() =>
      withWorkspace(context, "looking", ({ quartermaster }) => {
        const directory = quartermaster.directory(toCallerOptions(context.globals));
        context.out.answer(directory, escapeUnsafe(directory.text) || "This caller may use no actions.");
      }),
    );
}

async function runList(
  { out, globals }: Context,
  { quartermaster }: Workspace,
  category: string[],
  options: ListOptions,
): Promise<void> {
  const { filter, offset, limit, all = false } = options;
  const caller = toCallerOptions(globals);
  const query: ListQuery = omitUndefined({ category, filter });
  // The hint says whether search by meaning works, which is known once the stored vectors are read.
  await quartermaster.embeddings.settled();
  const listPage = (page: Page) => quartermaster.list({ ...query, ...page }, caller);
  const found = collectPages(listPage, offset, all ? Number.POSITIVE_INFINITY : limit);
  const { items, total, next_offset, hint } = found;
  if (out.isJson) return out.json(found);
  if (items.length === 0) {
    out.line("No action matches.");
    if (total > 0 || quartermaster.names(caller).length > 0) return out.line(hint ?? "");
    return out.line(
      `Actor ${globals.actor ?? "default"} sees no actions: \`qm doctor\` checks the configuration, \`qm explain <action>\` shows why one is hidden.`,
    );
  }
  out.table(
    ["action", "effect", "what it does"],
    items.map(({ qualified_name: name, short_description, description = "" }) => [
      name,
      quartermaster.describe(name, caller).metadata.purity,
      short_description ?? description,
    ]),
  );
  if (items.length < total) {
    const more = next_offset === undefined ? "" : ` More: --offset ${next_offset}, or --all.`;
    out.line("", out.dim(`${offset + 1} to ${offset + items.length} of ${total}.${more}`));
  }
}

type Page = { readonly offset: number; readonly limit: number };

function collectPages(listPage: (page: Page) => ActionList, from: number, wanted: number): ActionList {
  const items: ListedAction[] = [];
  for (let offset = from; ; ) {
    const page = listPage({ offset, limit: Math.min(PAGE, wanted - items.length) });
    items.push(...page.items);
    if (page.next_offset === undefined || items.length >= wanted) return { ...page, items };
    offset = page.next_offset;
  }
}
