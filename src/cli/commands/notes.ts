import { existsSync } from "node:fs";
import { type Command, Option } from "commander";
import { QmError } from "../../core/errors.ts";
import { noteVisibilities } from "../../infospace/note.ts";
import type { WorkspacePurpose } from "../../workspace/workspace.ts";
import {
  type Arguments,
  type Context,
  inWorkspace,
  isNotFound,
  reportNotFound,
  toOwnerFilter,
  type Work,
  withWorkspace,
} from "../context.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";
import { runNotesExport, runNotesImport } from "./notes/export-import.ts";
import { type NotesSearchFlags, runNotesList, runNotesSearch } from "./notes/list.ts";
import { runNotesRemove, runNotesSave } from "./notes/save-remove.ts";
import { runNotesShow } from "./notes/show.ts";

const HANDLE = "note__<number> or collection__<number>";
const FILTERS = "--session, --actor, --tenant and --user filter by the caller that created them.";

export function addNotesCommand(program: Command, context: Context): void {
  const notes = program
    .command("notes")
    .helpCommand(false)
    .summary("list, search, save, export, import and remove notes")
    .description("Manage the notes and collections that hold long results. Operators see those of all callers.")
    .addHelpText(...examples("qm notes list", "qm notes show collection__7", "qm notes export > notes.jsonl"));

  const run =
    <Args extends Arguments>(purpose: WorkspacePurpose, work: Work<Args>) =>
    (...args: Args) =>
      reportNotFound(context, () => inWorkspace(context, purpose, work)(...args).catch(rethrowWithNotesHint));

  notes
    .command("list")
    .summary("list notes, newest first")
    .description(`List notes and collections, newest first. ${FILTERS}`)
    .addOption(createKindOption())
    .option("--name <name>", "only notes with this name")
    .option("--action <name>", "only notes created by this action")
    .option("--saved", "only saved notes")
    .option("--unsaved", "only notes that expire")
    .option("--parts", "also the notes inside collections")
    .option("--before <place>", "show the page before this place, as printed below the last page")
    .option("--limit <n>", "show at most N", createWholeNumberParser(1, 1_000), 50)
    .addHelpText(...examples("qm notes list --session chat-1", "qm notes list --kind collection --saved --json"))
    .action(run("ledger", runNotesList));

  notes
    .command("show")
    .summary("show the content of a note")
    .description(
      "Show the content of a note: text unchanged, anything else as JSON. Of a collection, the content of its notes, one per line; on a terminal only the first 20.",
    )
    .argument("<handle>", HANDLE)
    .option("--path <path>", "only the value at this path, for example items[0].id")
    .option("--from <n>", "start at this position of a list, a collection or a text", createWholeNumberParser(0))
    .option("--to <n>", "stop before this position", createWholeNumberParser(0))
    .option("--at <version>", "show this version", createWholeNumberParser(1))
    .option("--history", "list the versions instead of the content")
    .option("-o, --output <file>", "write the content to this file; for a file note, its bytes")
    .option("--force", "replace an existing file")
    .addHelpText(
      ...examples("qm notes show note__12 --path 'items[0]'", "qm notes show collection__7 --from 100 --to 120"),
    )
    .action(run("ledger", runNotesShow));

  notes
    .command("search")
    .summary("find notes by their content")
    .description(
      "Find notes or collections by their content. With --actor, --session, --tenant or --user: only those this caller may use.",
    )
    .argument("<query...>")
    .option("--within <collection>", "search only this collection")
    .addOption(createKindOption())
    .addOption(
      new Option("--type <type>", "search by words, by meaning, or both").choices(["keyword", "semantic", "hybrid"]),
    )
    .option("--limit <n>", "show at most N", createWholeNumberParser(1, 100), 8)
    .addHelpText(...examples("qm notes search price of tea", "qm notes search tea --within collection__7"))
    .action(async (query: string[], flags: NotesSearchFlags) =>
      run(await getSearchPurpose(context, flags), runNotesSearch)(query.join(" "), flags),
    );

  notes
    .command("save")
    .summary("save a note, so that it never expires")
    .description(
      "Save a note or a collection with its contents, so that it never expires. --reach sets who may use it.",
    )
    .argument("<handle>", HANDLE)
    .option("--name <name>", "its new name")
    .addOption(new Option("--reach <reach>", "who may use it").choices(noteVisibilities))
    .addHelpText(...examples("qm notes save collection__7 --name orders", "qm notes save note__12 --reach tenant"))
    .action(run("ledger", runNotesSave));

  notes
    .command("export")
    .summary("write notes and collections as JSON lines")
    .description(`Write notes and collections as JSON lines, for \`qm notes import\` or anything else. ${FILTERS}`)
    .argument("[handles...]", `export only these, with their contents: ${HANDLE} (default: everything)`)
    .option("-o, --output <file>", "write to this file instead of stdout")
    .option("--force", "replace an existing file")
    .option("--history", "also export earlier versions")
    .addOption(createKindOption())
    .option("--saved", "only saved notes")
    .addHelpText(...examples("qm notes export --output notes.jsonl", "qm notes export collection__7 | gzip > rows.gz"))
    .action(run("ledger", runNotesExport));

  notes
    .command("import")
    .summary("import exported notes")
    .description(
      "Import a file that `qm notes export` wrote, completely or not at all, under new handles. The notes belong to --actor, --session, --tenant and --user.",
    )
    .argument("<file>", "a file, or - for stdin")
    .addHelpText(...examples("qm notes import notes.jsonl --session chat-2", "zcat rows.gz | qm notes import -"))
    .action(run("calls", runNotesImport));

  notes
    .command("rm")
    .alias("remove")
    .summary("remove notes and collections")
    .description(`Remove notes and collections, with the notes created for a collection. ${FILTERS}`)
    .argument("[handles...]", HANDLE)
    .option("--expired", "remove expired notes")
    .option("--all", "remove everything that --session, --actor, --tenant and --user select")
    .option("-y, --yes", "do not ask")
    .addHelpText(
      ...examples("qm notes rm note__12 note__13", "qm notes rm --all --session chat-1", "qm notes rm --expired"),
    )
    .action(run("ledger", runNotesRemove));
}

/** The original hint names an action; at the terminal the next step is a command. */
function rethrowWithNotesHint(thrown: unknown): never {
  // An unknown version of an existing note has a hint of its own.
  if (!isNotFound(thrown) || thrown.details?.version !== undefined) throw thrown;
  const { message, details } = thrown;
  const hint = "Unsaved notes expire. `qm notes list` shows the existing ones and who may use them.";
  throw new QmError("not_found", message, { hint, details, cause: thrown });
}

function createKindOption(): Option {
  return new Option("--kind <kind>", "only notes or only collections").choices(["note", "collection"]);
}

/** Search by words reads the store alone. Search for a caller or by meaning needs the whole workspace. */
async function getSearchPurpose(context: Context, { type = "keyword" }: NotesSearchFlags): Promise<WorkspacePurpose> {
  if (type === "keyword" && Object.keys(toOwnerFilter(context.globals)).length === 0) return "ledger";
  // Opening for calls would create a store.
  return withWorkspace(context, "ledger", ({ storePath }) => (existsSync(storePath) ? "calls" : "looking"));
}
