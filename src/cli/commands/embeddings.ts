import type { Command } from "commander";
import type { Embeddings } from "../../app/discovery.ts";
import { type CommandContext, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { formatExamples } from "../option-parsers.ts";
import { showCount } from "../terminal.ts";
import { escapeUnsafe, formatCount } from "../terminal-text.ts";

export function addEmbeddingsCommand(program: Command, context: CommandContext): void {
  const embeddings = program
    .command("embeddings")
    .helpCommand(false)
    .summary("see to the vectors behind search by meaning")
    .description(
      "See to the vectors behind search by meaning. `search.embedder` in the configuration says who makes them.",
    );
  embeddings
    .command("status", { isDefault: true })
    .summary("say what is configured and how far it is")
    .description("Say whether search goes by meaning, with which model, and if not, why and what to do.")
    .addHelpText("after", formatExamples("qm embeddings status", "qm embeddings status --json"))
    .action(() =>
      withWorkspace(context, "looking", ({ quartermaster }) => showStatus(context, quartermaster.embeddings)),
    );
  embeddings
    .command("build")
    .summary("make the vectors that are missing")
    .description("Make the vectors that are missing, now. Ctrl-C stops it; what was made by then is kept.")
    .option("--force", "make all of them anew")
    .addHelpText("after", formatExamples("qm embeddings build", "qm embeddings build --force --json"))
    .action(({ force = false }: { readonly force?: boolean }) =>
      withWorkspace(context, "calls", ({ quartermaster }) => buildVectors(context, quartermaster.embeddings, force)),
    );
  embeddings
    .command("clear")
    .summary("remove every vector")
    .description("Remove every vector from the index, of whatever catalog and model. They can be made again.")
    .addHelpText("after", formatExamples("qm embeddings clear", "qm embeddings clear --json"))
    .action(() =>
      withWorkspace(context, "calls", async ({ quartermaster }) => {
        const { rows } = await quartermaster.embeddings.clear();
        if (context.out.isJson) context.out.json({ rows });
        else context.out.line(rows === 0 ? "There were none." : `${formatCount(rows, "vector")} removed.`);
      }),
    );
}

async function showStatus({ out, end }: CommandContext, embeddings: Embeddings): Promise<void> {
  await embeddings.settled();
  const now = embeddings.status();
  if (now.state === "failed") end(exitCodes.failed);
  if (out.isJson) return out.json(now);
  const { state, model, done, total, reason, hint } = now;
  out.line(`Search by meaning: ${state}${reason === undefined ? "" : `: ${escapeUnsafe(reason)}`}`);
  if (model !== undefined) out.line(`Model: ${escapeUnsafe(model)}`);
  if (total > 0) out.line(`Vectors: ${done} of ${total}`);
  if (hint !== undefined) out.line(out.dim(escapeUnsafe(hint)));
}

async function buildVectors({ out, io }: CommandContext, embeddings: Embeddings, force: boolean): Promise<void> {
  const progress = showCount(io.stderr, "vectors");
  try {
    const report = await embeddings.build({ force, signal: io.signal, onProgress: progress.at });
    if (out.isJson) return out.json(report);
    const { embedded, reused, model } = report;
    out.line(`${formatCount(embedded.length, "vector")} made, ${reused} were there. Model: ${escapeUnsafe(model)}`);
  } finally {
    progress.end();
  }
}
