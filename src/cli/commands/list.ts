import type { Command } from "commander";
import { escapeUnsafe } from "../../core/display-text.ts";
import { omitUndefined } from "../../core/json.ts";
import type { ActionList, ListedAction, ListQuery } from "../../surface/universal/browse-actions.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace, toCallerOptions, withWorkspace } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";
import { formatPendingServers } from "../output.ts";
import { findListCommand, findSwitchedOff } from "./describe.ts";

type ListOptions = Readonly<{ filter?: string; offset: number; limit: number; all?: boolean; inventory?: boolean }>;

/** The catalog returns at most this many actions at once. */
const PAGE = 50;

export function addListCommand(program: Command, context: Context): void {
  program
    .command("list")
    .summary("list the actions a caller may use")
    .description("List the actions a caller may use, those of its world first, then by name.")
    .argument("[category...]", "only these categories")
    .option("--filter <text>", "only actions with this text in their name or description")
    .option("--offset <n>", "skip the first N", createWholeNumberParser(0), 0)
    .option("--limit <n>", "show at most N", createWholeNumberParser(1), PAGE)
    .option("--all", "show all actions")
    .option("--inventory", "show every action with its source, hidden ones too; works without a usable actor")
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
  context: Context,
  workspace: Workspace,
  category: string[],
  options: ListOptions,
): Promise<void> {
  const { out, globals } = context;
  const { quartermaster, config } = workspace;
  const { filter, offset, limit, all = false, inventory = false } = options;
  const caller = toCallerOptions(globals);
  if (inventory && Object.keys(caller).length > 0)
    throw createUsageError("--inventory lists the actions of all callers", "Leave out --inventory, or the caller.");
  if (inventory) return showInventory(context, workspace, category, filter);
  const query: ListQuery = omitUndefined({ category, filter });
  // The hint says whether search by meaning works, which is known once the stored vectors are read.
  await quartermaster.embeddings.settled();
  const listPage = (page: Page) => quartermaster.list({ ...query, ...page }, caller);
  const found = collectPages(listPage, offset, all ? Number.POSITIVE_INFINITY : limit);
  const { items, total, next_offset, hint, pending } = found;
  if (out.isJson) return out.json({ ...found, items: addOrigins(quartermaster, items) });
  const showPending = () => pending && out.line("", out.dim(formatPendingServers(pending)));
  if (items.length === 0) {
    out.line("No action matches.");
    const elsewhere = [...new Set(category.flatMap((each) => findListCommand(each) ?? []))];
    if (elsewhere.length > 0) return out.line(`These depend on the caller: see \`${elsewhere.join("`, `")}\`.`);
    if (total > 0 || quartermaster.names(caller).length > 0) {
      out.line(hint ?? "");
      for (const each of category) {
        const setting = findSwitchedOff(config, each);
        if (setting !== undefined) out.line(`${each} is switched off: set ${setting}: true.`);
      }
      return void showPending();
    }
    return out.line(
      `Actor ${globals.actor ?? "default"} sees no actions: \`qm doctor\` checks the configuration, \`qm explain <action>\` shows why one is hidden.`,
    );
  }
  const hasWorld = items.some(({ world }) => world !== undefined);
  out.table(
    ["action", "effect", ...(hasWorld ? ["world"] : []), "what it does"],
    items.map(({ qualified_name: name, world = "", short_description, description = "" }) => {
      const { purity, state } = quartermaster.describe(name, caller).metadata;
      // A server that is not started yet is started by the call.
      const obstacle = state === undefined || state === "not_started" ? "" : ` (${state.replaceAll("_", " ")})`;
      return [name, purity, ...(hasWorld ? [world] : []), (short_description ?? description) + obstacle];
    }),
  );
  if (items.length < total) {
    const more = next_offset === undefined ? "" : ` More: --offset ${next_offset}, or --all.`;
    out.line("", out.dim(`${offset + 1} to ${offset + items.length} of ${total}.${more}`));
  }
  showPending();
}

/** A model's list has no origins: it would only grow. */
function addOrigins(quartermaster: Workspace["quartermaster"], items: readonly ListedAction[]) {
  const known = new Map(quartermaster.inventory().map((each) => [String(each.name), each]));
  return items.map((item) => {
    const { source, type, schema_hint } = known.get(item.qualified_name) ?? {};
    return { ...item, source, type, schema_hint };
  });
}

function showInventory(
  { out }: Context,
  { quartermaster }: Workspace,
  categories: readonly string[],
  filter = "",
): void {
  const wanted = filter.toLowerCase();
  const actions = quartermaster
    .inventory()
    .filter(({ category }) => categories.length === 0 || categories.includes(category))
    .filter(({ name, summary }) => `${name}\n${summary}`.toLowerCase().includes(wanted));
  const hasWorld = actions.some(({ worlds }) => worlds !== undefined);
  const rows = actions.map(({ name, effect, source, worlds = [], summary }) => {
    return [name, effect, source, ...(hasWorld ? [worlds.join(", ")] : []), summary];
  });
  if (out.isJson) out.json({ actions });
  else if (rows.length === 0) out.line("No action matches.");
  else out.table(["action", "effect", "source", ...(hasWorld ? ["world"] : []), "what it does"], rows);
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
