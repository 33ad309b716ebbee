import type { Command } from "commander";
import { escapeUnsafe, formatCount } from "../../core/display-text.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";
import { showCount } from "../terminal.ts";

type BuildOptions = { readonly force?: boolean };

export function addEmbeddingsCommand(program: Command, context: Context): void {
  const embeddings = program
    .command("embeddings")
    .helpCommand(false)
    .summary("manage the vectors for search by meaning")
    .description("Manage the vectors for search by meaning. `search.embedder` in the configuration makes them.");
  embeddings
    .command("status", { isDefault: true })
    .summary("show the model and how many vectors exist")
    .description("Show whether search by meaning works, with which model, and if not, why and what to do.")
    .addHelpText(...examples("qm embeddings status", "qm embeddings status --json"))
    .action(inWorkspace(context, "looking", showStatus));
  embeddings
    .command("build")
    .summary("create the missing vectors")
    .description("Create the missing vectors now. Ctrl-C stops it; finished vectors are saved.")
    .option("--force", "create all vectors again")
    .addHelpText(...examples("qm embeddings build", "qm embeddings build --force --json"))
    .action(inWorkspace(context, "calls", buildVectors));
  embeddings
    .command("clear")
    .summary("remove all vectors")
    .description("Remove all vectors from the index, of every catalog and model. They can be created again.")
    .addHelpText(...examples("qm embeddings clear", "qm embeddings clear --json"))
    .action(() =>
      withWorkspace(context, "calls", async ({ quartermaster }) => {
        const { rows } = await quartermaster.embeddings.clear();
        context.out.answer({ rows }, rows === 0 ? "There were no vectors." : `${formatCount(rows, "vector")} removed.`);
      }),
    );
}

async function showStatus({ out, end }: Context, { quartermaster: { embeddings } }: Workspace): Promise<void> {
  await embeddings.settled();
  const status = embeddings.status();
  const { state, model, done, total, reason, hint } = status;
  if (state === "failed") end(exitCodes.failed);
  if (out.isJson) return out.json(status);
  out.line(`Search by meaning: ${state}${reason === undefined ? "" : `: ${escapeUnsafe(reason)}`}`);
  if (model !== undefined) out.line(`Model: ${escapeUnsafe(model)}`);
  if (total > 0) out.line(`Vectors: ${done} of ${total}`);
  if (hint !== undefined) out.line(out.dim(escapeUnsafe(hint)));
}

async function buildVectors({ out, io }: Context, { quartermaster }: Workspace, { force = false }: BuildOptions) {
  const progress = showCount(io.stderr, "vectors");
  const building = quartermaster.embeddings.build({ force, signal: io.signal, onProgress: progress.at });
  const report = await building.finally(progress.end);
  const { embedded, reused, model } = report;
  const created = formatCount(embedded.length, "vector");
  out.answer(report, `${created} created, ${reused} reused. Model: ${escapeUnsafe(model)}`);
}
