import { writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { type FileAccess, fileAccessKinds, getInitialConfig } from "../../config/initial-config.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import type { Context } from "../context.ts";
import { examples } from "../option-parsers.ts";
import { chooseAtTerminal } from "../terminal.ts";

export function addInitCommand(program: Command, context: Context): void {
  program
    .command("init")
    .summary("write a quartermaster.yaml to start from")
    .description("Write a quartermaster.yaml with every section and its defaults into this folder.")
    .option("--force", "overwrite an existing file")
    .addOption(
      new Option("--files <access>", "what the file actions may do (default: read; asked at a terminal)").choices(
        fileAccessKinds,
      ),
    )
    .addHelpText(...examples("qm init", "qm init --files write", "qm init --config staging.yaml"))
    .action((options: InitOptions) => runInit(context, options));
}

type InitOptions = Readonly<{ force?: boolean; files?: FileAccess }>;

const FILE_ACCESS: Record<FileAccess, string> = {
  read: "reading only; set providers.file.read_only to false to allow changes",
  write: "reading, writing, editing and deleting",
  none: "none",
};
const QUESTION = "May actions read the files of this folder, also write and delete them, or none of these?";

async function runInit({ io, globals, out }: Context, { force = false, ...options }: InitOptions): Promise<void> {
  const { CONFIG_FILE } = await import("../../config/config-file.ts");
  const name = globals.config ?? CONFIG_FILE;
  const path = resolve(io.cwd, name);
  const files = options.files ?? (await chooseAtTerminal(io, QUESTION, fileAccessKinds));
  await writeFile(path, getInitialConfig(files), { flag: force ? "w" : "wx" }).catch((thrown) => {
    if (thrown.code === "EEXIST")
      throw new QmError("conflict", `${path} already exists; nothing was changed`, {
        hint: "Give --force to overwrite it, or --config <path> to write another file.",
      });
    throw new QmError("action_failed", `${path} cannot be written: ${getErrorMessage(thrown)}`, { cause: thrown });
  });
  const option = globals.config === undefined ? "" : ` --config ${name}`;
  out.answer(
    { written: path, files },
    `Wrote ${path}.
File actions: ${FILE_ACCESS[files]}.

What next:
  1. Open it and set who may do what; every line is explained.
  2. qm doctor${option}   checks it
  3. qm list${option}     lists the actions it provides
  4. qm import${option}   imports the MCP servers of your clients
  5. qm connect${option}  lists the clients; \`qm connect <client>\` lets one use all of it
  6. qm chat${option}     chats with an actor, once a model is configured`,
  );
}
