import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import type { Context } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples } from "../options.ts";
import { shellQuoted } from "../text.ts";
import { type Stop, stops, tourFiles } from "../tour-stops.ts";

export function addTour(program: Command, context: Context): void {
  program
    .command("tour")
    .summary("see it all once, in a folder that is removed afterwards")
    .description("Make a small workspace, and see calls that are done, refused and failed, and the ledger of them.")
    .option("--keep", "leave the folder there")
    .addHelpText("after", examples("qm tour", "qm tour --keep"))
    .action((options: { readonly keep?: boolean }) => tour(context, options.keep === true));
}

async function tour(context: Context, keep: boolean): Promise<void> {
  const { out } = context;
  const folder = await realpath(await mkdtemp(join(tmpdir(), "qm-tour-")));
  try {
    for (const [name, content] of Object.entries(tourFiles)) await writeFile(join(folder, name), content);
    const seen = out.isJson ? await gatherStops(context, folder) : await showStops(context, folder);
    if (out.isJson) out.json({ ...(keep ? { folder } : {}), stops: seen });
    if (seen.some(({ code, expected }) => code !== expected)) context.end(exitCodes.failed);
  } finally {
    if (!keep) await rm(folder, { recursive: true, force: true });
  }
  if (!out.isJson) sayWhatNext(context, keep ? folder : undefined);
}

interface Seen {
  readonly command: string;
  readonly code: number;
  readonly expected: number;
}

async function showStops({ io, out, run }: Context, folder: string): Promise<readonly Seen[]> {
  out.line(`A fresh workspace in ${folder}, with this quartermaster.yaml:`);
  out.line();
  for (const line of tourFiles["quartermaster.yaml"].trimEnd().split("\n")) out.line(out.dim(`    ${line}`));
  const seen: Seen[] = [];
  for (const { title, argv, code: expected, meaning } of stops) {
    out.line();
    out.line(out.bold(title));
    out.line(`$ ${commandOf(argv)}`);
    // On one stream, or a piped tour would tell its errors in another place than its story.
    const code = await run(argv, { ...io, cwd: folder, stderr: io.stdout });
    if (meaning !== undefined) out.line(out.dim(`exit code ${code}: ${meaning}`));
    seen.push({ command: commandOf(argv), code, expected });
  }
  return seen;
}

async function gatherStops({ io, run }: Context, folder: string): Promise<readonly (Seen & { answer: unknown })[]> {
  const seen: (Seen & { answer: unknown })[] = [];
  for (const { argv, code: expected } of stops) {
    const parts: string[] = [];
    const stdout = { write: (part: string) => void parts.push(part), isTTY: false };
    const code = await run([...argv, "--json"], { ...io, cwd: folder, stdout, stderr: { ...stdout, write: () => {} } });
    seen.push({ command: commandOf(argv), code, expected, answer: JSON.parse(parts.join("")) });
  }
  return seen;
}

function commandOf(argv: Stop["argv"]): string {
  return ["qm", ...argv].map(shellQuoted).join(" ");
}

function sayWhatNext({ out }: Context, kept: string | undefined): void {
  out.line();
  out.line(kept === undefined ? "That was the tour; its folder is gone." : `That was the tour; its folder is ${kept}.`);
  out.line();
  out.line(out.bold("Three to try in a folder of your own:"));
  out.line("  qm init                                       write a quartermaster.yaml, and read it");
  out.line("  qm list                                       see what it gives");
  out.line("  qm invoke file__list '{}'                     call something; then look at `qm events`");
}
