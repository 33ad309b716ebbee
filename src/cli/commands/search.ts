import { type Command, Option } from "commander";
import { summarizeAction } from "../../core/action.ts";
import { type SearchType, searchTypes } from "../../core/surface-choice.ts";
import type { FoundAction, FoundActions } from "../../surface/universal/search-actions.ts";
import { type CommandContext, toCallerOptions, withWorkspace } from "../context.ts";
import { createWholeNumberParser, formatExamples } from "../option-parsers.ts";
import { escapeUnsafe, safeJson, toOneLine } from "../terminal-text.ts";

export function addHintsCommand(program: Command, context: CommandContext): void {
  program
    .command("hints")
    .summary("show the shortlist a prompt gets for a task")
    .description("Show the shortlist of actions that a prompt gets for a task, as the model reads it.")
    .argument("<task...>", "what the model is asked to do")
    .addHelpText(
      "after",
      formatExamples("qm hints change the title of the readme", "qm hints --actor reviewer find a file"),
    )
    .action((words: readonly string[]) =>
      withWorkspace(context, "looking", async ({ quartermaster }) => {
        const text = await quartermaster.hints(words.join(" "), toCallerOptions(context.globals));
        if (context.out.isJson) context.out.json({ text });
        else context.out.line(text === "" ? "No action fits, so a prompt gets no shortlist." : escapeUnsafe(text));
      }),
    );
}

interface SearchFlags {
  readonly category?: readonly string[];
  readonly type?: SearchType;
  readonly limit: number;
  readonly full?: boolean;
}

export function addSearchCommand(program: Command, context: CommandContext): void {
  program
    .command("search")
    .summary("find actions by what they do")
    .description(
      "Find the actions a caller may use by what they do, best first. An action's own name comes first, and `select:a,b` names those wanted. Without --type it is by words, and by meaning too where an embedder is configured.",
    )
    .argument("<query...>", "what it should do, in a few words")
    .option("--category <name>", "only this category; may be given again", collectCategory)
    .addOption(new Option("--type <type>", "how to search").choices([...searchTypes]))
    .option("--limit <n>", "show at most so many", createWholeNumberParser(1), 8)
    .option("--full", "with descriptions and input schemas")
    .addHelpText(
      "after",
      formatExamples(
        "qm search read a file",
        "qm search --type regex '^file__.*te$'",
        "qm search 'select:file__read' --full --json",
      ),
    )
    .action((words: readonly string[], flags: SearchFlags) =>
      withWorkspace(context, "looking", async ({ quartermaster }) => {
        const { category, type, limit, full = false } = flags;
        const found = await quartermaster.search(
          {
            query: words.join(" "),
            limit,
            // What is cut to fit a model's budget is for models; the table has its own width.
            detail: full || !context.out.isJson ? "full" : "compact",
            ...(category === undefined ? {} : { category }),
            ...(type === undefined ? {} : { type }),
          },
          toCallerOptions(context.globals),
          context.io.signal,
        );
        if (context.out.isJson) return context.out.json(found);
        showFound(context, found, full);
        const { state, reason } = quartermaster.embeddings.status();
        if (state !== "off" && found.search_type === "fts" && type === undefined && found.hint === undefined)
          context.out.note(`qm: searched by words only: ${toOneLine(reason ?? "vectors are missing")}`);
      }),
    );
}

function showFound({ out }: CommandContext, { items, unmatched = [], hint }: FoundActions, full: boolean): void {
  if (items.length === 0) out.line("No action fits.");
  else out.table(["action", "score", "what it does"], items.map(toRow));
  if (full) {
    for (const { qualified_name, input_schema } of items) {
      out.line();
      out.line(`${qualified_name} takes`);
      out.line(safeJson(input_schema, 2));
    }
  }
  const notes = [
    ...(unmatched.length === 0 ? [] : [`Nothing available has: ${unmatched.join(", ")}`]),
    ...(hint === undefined ? [] : [hint]),
  ];
  if (notes.length > 0) out.line();
  for (const note of notes) out.line(out.dim(escapeUnsafe(note)));
}

function toRow({ qualified_name, score, description = "", state }: FoundAction) {
  const waits = state === undefined ? "" : `(${state.replaceAll("_", " ")}) `;
  return [qualified_name, score.toFixed(2), `${waits}${summarizeAction({ description })}`];
}

function collectCategory(name: string, before: readonly string[] = []): readonly string[] {
  return [...before, name];
}
