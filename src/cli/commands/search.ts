import { type Command, Option } from "commander";
import { summarizeAction } from "../../core/action.ts";
import { escapeUnsafe, toOneLine } from "../../core/display-text.ts";
import { omitUndefined } from "../../core/json.ts";
import { type SearchType, searchTypes } from "../../core/surface-choice.ts";
import { formatSignature } from "../../surface/signature.ts";
import type { FoundAction, FoundActions } from "../../surface/universal/search-actions.ts";
import { type Context, toCallerOptions, withWorkspace } from "../context.ts";
import { collectOption, createWholeNumberParser, examples } from "../option-parsers.ts";
import { formatPendingServers } from "../output.ts";
import { safeJson } from "../terminal-text.ts";

type SearchFlags = Readonly<{ category?: readonly string[]; type?: SearchType; limit?: number; full?: boolean }>;

export function addSearchCommand(program: Command, context: Context): void {
  program
    .command("search")
    .summary("find actions by what they do")
    .description(
      "Find the actions a caller may use by what they do, best match first. An exact action name comes first; `select:a,b` selects actions by name. Without --type, search goes by words, and by meaning too if an embedder is configured.",
    )
    .argument("<query...>", "what the action should do, in a few words")
    .option("--category <name>", "only this category; may be repeated", collectOption)
    .addOption(new Option("--type <type>", "how to search").choices([...searchTypes]))
    .option("--limit <n>", "show at most N (default: the best 5, without those far behind)", createWholeNumberParser(1))
    .option("--full", "show descriptions and input schemas")
    .addHelpText(
      ...examples(
        "qm search read a file",
        "qm search --type regex '^file__.*te$'",
        "qm search 'select:file__read' --json",
      ),
    )
    .action((words: readonly string[], { category, type, limit, full = false }: SearchFlags) =>
      withWorkspace(context, "looking", async ({ quartermaster }) => {
        const { io, out, globals } = context;
        // The compact form is cut to a model's budget.
        const detail = full || !out.isJson ? "full" : "compact";
        const found = await quartermaster.search(
          { query: words.join(" "), detail, ...omitUndefined({ category, type, limit }) },
          toCallerOptions(globals),
          io.signal,
        );
        if (out.isJson) return out.json(found);
        showFound(context, found, full);
        const { state, reason } = quartermaster.embeddings.status();
        if (state !== "off" && found.search_type === "fts" && type === undefined && found.hint === undefined)
          out.note(`qm: searched by words only: ${toOneLine(reason ?? "vectors are missing")}`);
      }),
    );
}

export function addHintsCommand(program: Command, context: Context): void {
  program
    .command("hints")
    .summary("show the action shortlist of a prompt")
    .description("Show the shortlist of actions that a prompt gets for a task, as the model reads it.")
    .argument("<task...>", "what the model is asked to do")
    .addHelpText(...examples("qm hints change the title of the readme", "qm hints --actor reviewer find a file"))
    .action((words: readonly string[]) =>
      withWorkspace(context, "looking", async ({ quartermaster }) => {
        const text = await quartermaster.hints(words.join(" "), toCallerOptions(context.globals));
        context.out.answer({ text }, escapeUnsafe(text) || "No action matches, so the prompt gets no shortlist.");
      }),
    );
}

function showFound({ out }: Context, { items, unmatched = [], hint, pending }: FoundActions, full: boolean): void {
  if (items.length === 0) out.line("No action matches.");
  for (const item of items) out.line(...formatFound(item));
  for (const { qualified_name, input_schema } of full ? items : []) {
    out.line("", `Input schema of ${qualified_name}:`, safeJson(input_schema, 2));
  }
  const notes = [
    ...(unmatched.length === 0 ? [] : [`No visible action has: ${unmatched.join(", ")}`]),
    ...(hint === undefined ? [] : [hint]),
    ...(pending === undefined ? [] : [formatPendingServers(pending)]),
  ];
  if (notes.length > 0) out.line();
  for (const note of notes) out.line(out.dim(escapeUnsafe(note)));
}

/** Nothing is cut: without its arguments an action cannot be called. */
function formatFound({
  qualified_name: name,
  score,
  description = "",
  input_schema: inputSchema = {},
  state,
}: FoundAction) {
  const prefix = state === undefined ? "" : `(${state.replaceAll("_", " ")}) `;
  const summary = toOneLine(summarizeAction({ description }));
  return [`${score.toFixed(2)}  ${name}${formatSignature({ inputSchema }, 0)}`, `      ${prefix}${summary}`];
}
