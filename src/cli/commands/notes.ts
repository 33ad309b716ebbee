import { existsSync } from "node:fs";
import { type Command, Option } from "commander";
import { QmError } from "../../core/errors.ts";
import { noteVisibilities } from "../../infospace/note.ts";
import type { Workspace, WorkspacePurpose } from "../../workspace/workspace.ts";
import { type CommandContext, withWorkspace } from "../context.ts";
import { createWholeNumberParser, formatExamples } from "../option-parsers.ts";
import type { NotesExportFlags } from "./notes/export-import.ts";
import type { NotesListFlags, NotesSearchFlags } from "./notes/list.ts";
import type { NotesRemoveFlags, NotesSaveFlags } from "./notes/save-remove.ts";
import type { NotesShowFlags } from "./notes/show.ts";
import { reportNotFound } from "./replay.ts";

const HANDLE = "note__<number> or collection__<number>";
const WHOSE = "--session, --actor, --tenant and --user choose what was made there and for them.";

/** What each command does is loaded when it is run: the program starts with the words alone. */
export function addNotesCommand(program: Command, context: CommandContext): void {
  const notes = program
    .command("notes")
    .helpCommand(false)
    .summary("what was kept of results: look, search, save, export, import, remove")
    .description(
      "See the notes and collections that results were kept as, and take them out or in. Yours is everybody's.",
    )
    .addHelpText(
      "after",
      formatExamples("qm notes list", "qm notes show collection__7", "qm notes export > notes.jsonl"),
    );

  async function runWithWorkspace(
    purpose: WorkspacePurpose,
    work: (workspace: Workspace) => Promise<void>,
  ): Promise<void> {
    await reportNotFound(context, () => withWorkspace(context, purpose, work).catch(rethrowWithNotesHint));
  }

  notes
    .command("list")
    .summary("what is kept, the newest first")
    .description(`Show the notes and collections there are, what was made last first. ${WHOSE}`)
    .addOption(createKindOption())
    .option("--name <name>", "only what is called that")
    .option("--action <name>", "only what a call of this action made")
    .option("--saved", "only what is kept for good")
    .option("--unsaved", "only what expires")
    .option("--parts", "also the notes that were made for a collection")
    .option("--before <place>", "the next page: what the one before says to give")
    .option("--limit <n>", "at most so many", createWholeNumberParser(1, 1_000), 50)
    .addHelpText(
      "after",
      formatExamples("qm notes list --session chat-1", "qm notes list --kind collection --saved --json"),
    )
    .action((flags: NotesListFlags) =>
      runWithWorkspace("ledger", async (workspace) =>
        (await import("./notes/list.ts")).runNotesList(context, workspace, flags),
      ),
    );

  notes
    .command("show")
    .summary("what one says")
    .description(
      "Show what a note says: text as it is, anything else as JSON. Of a collection what its notes say, one a line; on a terminal only the first.",
    )
    .argument("<handle>", HANDLE)
    .option("--path <path>", "only what is there in it: items[0].id")
    .option(
      "--from <n>",
      "from this position on, of a list, a collection, or the characters of a text",
      createWholeNumberParser(0),
    )
    .option("--to <n>", "up to before this position", createWholeNumberParser(0))
    .option("--at <version>", "as it was in this version", createWholeNumberParser(1))
    .option("--history", "the versions there are, not what it says")
    .option("-o, --output <file>", "write it there; of a file the bytes")
    .option("--force", "replace the file where there is one")
    .addHelpText(
      "after",
      formatExamples("qm notes show note__12 --path 'items[0]'", "qm notes show collection__7 --from 100 --to 120"),
    )
    .action((handle: string, flags: NotesShowFlags) =>
      runWithWorkspace("ledger", async (workspace) =>
        (await import("./notes/show.ts")).runNotesShow(context, workspace, handle, flags),
      ),
    );

  notes
    .command("search")
    .summary("find notes by what they say")
    .description(
      "Find notes, or collections, by what they say. With --actor, --session, --tenant or --user: what that caller may find.",
    )
    .argument("<query...>")
    .option("--within <collection>", "only in this collection")
    .addOption(createKindOption())
    .addOption(
      new Option("--type <type>", "by words, by meaning, or by both").choices(["keyword", "semantic", "hybrid"]),
    )
    .option("--limit <n>", "at most so many", createWholeNumberParser(1, 100), 8)
    .addHelpText("after", formatExamples("qm notes search price of tea", "qm notes search tea --within collection__7"))
    .action(async (query: string[], flags: NotesSearchFlags) => {
      await runWithWorkspace(await getSearchPurpose(context, flags), async (workspace) =>
        (await import("./notes/list.ts")).runNotesSearch(context, workspace, query.join(" "), flags),
      );
    });

  notes
    .command("save")
    .summary("keep one for good")
    .description(
      "Keep a note or a collection for good, with all that is in it. It reaches whom it did, unless --reach says otherwise.",
    )
    .argument("<handle>", HANDLE)
    .option("--name <name>", "what it is called from now on")
    .addOption(new Option("--reach <reach>", "who may use it").choices(noteVisibilities))
    .addHelpText(
      "after",
      formatExamples("qm notes save collection__7 --name orders", "qm notes save note__12 --reach tenant"),
    )
    .action((handle: string, flags: NotesSaveFlags) =>
      runWithWorkspace("ledger", async (workspace) =>
        (await import("./notes/save-remove.ts")).runNotesSave(context, workspace, handle, flags),
      ),
    );

  notes
    .command("export")
    .summary("write notes and collections as JSON lines")
    .description(`Write notes and collections as JSON lines, for \`qm notes import\` or anything else. ${WHOSE}`)
    .argument("[handles...]", `these, with what is in them: ${HANDLE}; everything, when absent`)
    .option("-o, --output <file>", "write to this file, not to stdout")
    .option("--force", "replace the file where there is one")
    .option("--history", "also what notes said and collections held before")
    .addOption(createKindOption())
    .option("--saved", "only what is kept for good")
    .addHelpText(
      "after",
      formatExamples("qm notes export --output notes.jsonl", "qm notes export collection__7 | gzip > rows.gz"),
    )
    .action((handles: string[], flags: NotesExportFlags) =>
      runWithWorkspace("ledger", async (workspace) =>
        (await import("./notes/export-import.ts")).runNotesExport(context, workspace, handles, flags),
      ),
    );

  notes
    .command("import")
    .summary("take in what was exported")
    .description(
      "Take in everything in a file that `qm notes export` wrote, under new handles, or nothing of it. It belongs to --actor, --session, --tenant and --user.",
    )
    .argument("<file>", "a file, or - for stdin")
    .addHelpText(
      "after",
      formatExamples("qm notes import notes.jsonl --session chat-2", "zcat rows.gz | qm notes import -"),
    )
    .action((file: string) =>
      runWithWorkspace("calls", async (workspace) =>
        (await import("./notes/export-import.ts")).runNotesImport(context, workspace, file),
      ),
    );

  notes
    .command("rm")
    .alias("remove")
    .summary("remove notes and collections")
    .description(`Remove notes and collections for good; of a collection what was made for it, too. ${WHOSE}`)
    .argument("[handles...]", HANDLE)
    .option("--expired", "what has expired, which nobody can reach any more")
    .option("--all", "everything that --session, --actor, --tenant and --user choose")
    .option("-y, --yes", "do not ask, whatever it is")
    .addHelpText(
      "after",
      formatExamples("qm notes rm note__12 note__13", "qm notes rm --all --session chat-1", "qm notes rm --expired"),
    )
    .action((handles: string[], flags: NotesRemoveFlags) =>
      runWithWorkspace("ledger", async (workspace) =>
        (await import("./notes/save-remove.ts")).runNotesRemove(context, workspace, handles, flags),
      ),
    );
}

/** What is not there is looked for with a command here, not with an action. */
function rethrowWithNotesHint(thrown: unknown): never {
  if (!(thrown instanceof QmError) || thrown.code !== "not_found") throw thrown;
  const { message, details } = thrown;
  // It is there, in other versions than that.
  if (details?.version !== undefined) throw thrown;
  const hint = "What is not saved expires. `qm notes list` shows what is kept, and for whom.";
  throw new QmError("not_found", message, { hint, details, cause: thrown });
}

function createKindOption(): Option {
  return new Option("--kind <kind>", "only these").choices(["note", "collection"]);
}

/** By words an operator finds everything in the store alone; what a caller may find and by meaning takes all there is. */
async function getSearchPurpose(
  context: CommandContext,
  { type = "keyword" }: NotesSearchFlags,
): Promise<WorkspacePurpose> {
  const { actor, session, tenant, user } = context.globals;
  if (type === "keyword" && [actor, session, tenant, user].every((each) => each === undefined)) return "ledger";
  // Looking for notes makes no store.
  return withWorkspace(context, "ledger", ({ storePath }) => (existsSync(storePath) ? "calls" : "ledger"));
}
