import type { Command } from "commander";
import type { Context } from "../context.ts";
import { oneLine } from "../text.ts";

/** What the completion scripts ask. Whatever goes wrong, the answer is nothing: a prompt is no place for errors. */
export function addComplete(program: Command, context: Context): void {
  program
    .command("complete", { hidden: true })
    .description("Answer the words that could come next, for completion scripts.")
    .argument("[words...]", "the words after `qm` up to the cursor, after --")
    .action(async (words: readonly string[]) => {
      const found = await candidates(context, words);
      if (context.out.isJson) context.out.json({ candidates: found.map(([word, meaning]) => ({ word, meaning })) });
      else for (const [word, meaning] of found) context.out.line(`${word}\t${oneLine(meaning)}`);
    });
}

async function candidates(context: Context, words: readonly string[]) {
  try {
    const { candidatesFor } = await import("../completion/candidates.ts");
    return await candidatesFor(context, words);
  } catch {
    return [];
  }
}
