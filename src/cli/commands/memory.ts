import { type Command, Option } from "commander";
import { type MemoryLayer, memoryLayers, memoryTypes } from "../../providers/memory/memory-text.ts";
import { type Arguments, type Context, inWorkspace, reportNotFound, type Work } from "../context.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";

export function addMemoryCommand(program: Command, context: Context): void {
  const memory = program
    .command("memory")
    .helpCommand(false)
    .summary("list, show, export, import and forget what actors remember")
    .description(
      "Manage what actors remember across sessions. --actor and --tenant say whose. Every call goes through the policy and is recorded.",
    )
    .addHelpText(...examples("qm memory list", "qm memory export memories", "qm memory history release-day"));
  const run =
    (name: keyof typeof import("./memory/run-memory.ts")) =>
    (...args: Arguments) =>
      reportNotFound(context, async () => {
        // Help and completion do not need what the commands use.
        const work = (await import("./memory/run-memory.ts"))[name] as Work<Arguments>;
        await inWorkspace(context, "calls", work)(...args);
      });

  memory
    .command("list")
    .summary("list or search memories")
    .description("List memories, the last changed first, or search them with --query.")
    .addOption(createLayerOption())
    .addOption(new Option("--type <type>", "only this type").choices(memoryTypes))
    .option("--query <text>", "find memories by their names, descriptions and bodies")
    .option("--offset <n>", "skip N", createWholeNumberParser(0), 0)
    .option("--limit <n>", "show at most N", createWholeNumberParser(1, 200), 50)
    .addHelpText(...examples("qm memory list --layer agent --actor reviewer", "qm memory list --query 'release day'"))
    .action(run("listMemories"));
  memory
    .command("show")
    .summary("show a memory")
    .description("Show the body of a memory.")
    .argument("<slug>")
    .addOption(createLayerOption("shared"))
    .addHelpText(...examples("qm memory show release-day"))
    .action(run("showMemory"));
  memory
    .command("history")
    .summary("show the versions of a memory")
    .description("Show the versions of a memory, the newest first, also of a forgotten one.")
    .argument("<slug>")
    .addOption(createLayerOption("shared"))
    .option("--limit <n>", "show at most N", createWholeNumberParser(1, 20), 5)
    .addHelpText(...examples("qm memory history release-day"))
    .action(run("showHistory"));
  memory
    .command("forget")
    .summary("forget a memory")
    .description("Forget a memory. Its versions stay in its history.")
    .argument("<slug>")
    .addOption(createLayerOption("shared"))
    .addHelpText(...examples("qm memory forget release-day"))
    .action(run("forgetMemory"));
  memory
    .command("export")
    .summary("write memories as Markdown files")
    .description("Write each memory as a Markdown file with front matter, and an index MEMORY.md.")
    .argument("<folder>", "created if it does not exist; files of the same names are replaced")
    .addOption(createLayerOption())
    .addHelpText(...examples("qm memory export memories"))
    .action(run("exportMemories"));
  memory
    .command("import")
    .summary("import Markdown files as memories")
    .description("Import the Markdown files of a folder. Files with a problem are named and left out.")
    .argument("<folder>", "a folder of `qm memory export`, or of .md files with front matter")
    .addOption(
      new Option("--layer <layer>", "import into this layer (default: as the files say, or shared)").choices(
        memoryLayers,
      ),
    )
    .addHelpText(...examples("qm memory import memories", "qm memory import notes --layer agent --actor reviewer"))
    .action(run("importMemories"));
}

const createLayerOption = (value?: MemoryLayer): Option => {
  const option = new Option("--layer <layer>", "the layer").choices(memoryLayers);
  return value === undefined ? option : option.default(value);
};
