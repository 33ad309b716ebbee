import type { Command } from "commander";
import type { WorkspacePurpose } from "../../workspace/workspace.ts";
import type { ChatFlags } from "../chat/start-chat.ts";
import { type Arguments, type Context, inWorkspace, type Work, withWorkspace } from "../context.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";

const loadTask = async () => (await import("../chat/run-task.ts")).runTask;
const loadList = async () => (await import("../chat/stored-sessions.ts")).listSessions;
const loadShow = async () => (await import("../chat/stored-sessions.ts")).showSession;
const loadRemove = async () => (await import("../chat/stored-sessions.ts")).removeSession;

const runLoaded =
  <Args extends Arguments>(context: Context, purpose: WorkspacePurpose, load: () => Promise<Work<Args>>) =>
  async (...args: Args) =>
    inWorkspace(context, purpose, await load())(...args);

export function addChatCommand(program: Command, context: Context): void {
  program
    .command("chat")
    .summary("chat with an actor at the terminal")
    .description(
      "Chat with an actor. Its answers appear as the model writes them, with a line for each call. A call that needs approval is shown exactly as it would run, and you are asked. Ctrl-C interrupts the actor, Ctrl-D leaves.",
    )
    .option("--resume", "continue the last session with the actor")
    .addHelpText(
      ...examples(
        "qm chat",
        "qm chat --actor reviewer",
        "qm chat --actor reviewer --resume",
        "qm chat --session notes",
      ),
    )
    .action((flags: ChatFlags) =>
      withWorkspace(
        context,
        "calls",
        async (workspace) => (await import("../chat/start-chat.ts")).startChat(context, workspace, flags),
        true,
      ),
    );
}

export function addRunCommand(program: Command, context: Context): void {
  program
    .command("run")
    .summary("give an actor one task, and print its answer")
    .description(
      "Give an actor one task and print its answer. Its calls are listed on stderr. If calls wait for approval, it exits with 10 and prints how to continue.",
    )
    .argument("[task]", "what the actor is to do, or - for stdin")
    .option(
      "--resume [token]",
      "continue a turn that waited for approval; without the token, that of --session or of the last session",
    )
    .addHelpText(
      ...examples(
        'qm run --actor reviewer "Review src/app.ts"',
        "git diff | qm run --actor reviewer -",
        'qm run --json --session release "What is left to do?"',
        "qm run --resume=5wJ0pQ",
      ),
    )
    .action(runLoaded(context, "calls", loadTask));
}

export function addSessionsCommand(program: Command, context: Context): void {
  const sessions = program
    .command("sessions")
    .helpCommand(false)
    .summary("list, show and remove conversations with actors")
    .description("Look at the conversations of `qm chat`, `qm run` and `callActor`. They are stored for each actor.")
    .addHelpText(...examples("qm sessions list", "qm sessions show 0199c2f1", "qm sessions remove 0199c2f1"));

  sessions
    .command("list")
    .summary("list the sessions, the last changed first")
    .description("List the sessions, the last changed first. --actor, --tenant and --user filter them.")
    .option("--limit <n>", "show at most this many", createWholeNumberParser(1, 1000), 50)
    .option("--offset <n>", "leave out this many, for the next page", createWholeNumberParser(0), 0)
    .addHelpText(...examples("qm sessions list", "qm sessions list --actor reviewer --limit 10"))
    .action(runLoaded(context, "ledger", loadList));

  sessions
    .command("show")
    .summary("show the messages and calls of a session")
    .description("Show the messages and calls of a session, oldest first.")
    .argument("<id>", "the session, or the beginning of its id")
    .option("--limit <n>", "show at most this many messages", createWholeNumberParser(1, 1000), 100)
    .option("--after <n>", "show those after this number, for the next page", createWholeNumberParser(0), 0)
    .addHelpText(...examples("qm sessions show 0199c2f1", "qm sessions show release --actor reviewer --json"))
    .action(runLoaded(context, "ledger", loadShow));

  sessions
    .command("remove")
    .summary("remove a session and its messages")
    .description("Remove a session and its messages, for one actor with --actor, else for all. The ledger stays.")
    .argument("<id>", "the session, or the beginning of its id")
    .option("--yes", "do not ask")
    .addHelpText(...examples("qm sessions remove 0199c2f1", "qm sessions remove release --yes"))
    .action(runLoaded(context, "ledger", loadRemove));
}
