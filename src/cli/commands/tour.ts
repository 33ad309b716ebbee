import { quoteShellWord } from "../../core/display-text.ts";
import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import type { CommandContext } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { formatExamples } from "../option-parsers.ts";

/** What the tour's workspace is made of. */
const tourFiles = {
  "quartermaster.yaml": `policy:
  rules:
    - name: no-deleting
      rule: "'destructive' in tool.tags"
      effect: deny
      reason: Nothing is deleted on this tour.
actors:
  default:
    tools: ["*"]
  reader:
    tools: [file__read, file__list]
`,
  "hello.txt": "Hello from the other side of the counter.\n",
} as const;

/** One command of the tour. */
interface TourStep {
  readonly title: string;
  readonly argv: readonly string[];
  /** How it must end. */
  readonly code: number;
  /** Said after it, where the exit code is the point. */
  readonly meaning?: string;
}

const tourSteps: readonly TourStep[] = [
  { title: "1. What is there to draw?", argv: ["list"], code: exitCodes.done },
  { title: "2. Which one reads a file?", argv: ["search", "read a text file", "--limit", "3"], code: exitCodes.done },
  {
    title: "3. A call that is done",
    argv: ["invoke", "file__read", '{"path":"hello.txt"}'],
    code: exitCodes.done,
    meaning: "done",
  },
  {
    title: "4. A call that the policy refuses",
    argv: ["invoke", "file__delete", '{"path":"hello.txt"}'],
    code: exitCodes.refused,
    meaning: "refused, so the file is still there",
  },
  {
    title: "5. A call that fails",
    argv: ["invoke", "file__read", '{"path":"helo.txt"}'],
    code: exitCodes.failed,
    meaning: "failed, with what to do about it",
  },
  { title: "6. Why was it refused?", argv: ["explain", "file__delete"], code: exitCodes.done },
  { title: "7. Others see less", argv: ["list", "--actor", "reader"], code: exitCodes.done },
  { title: "8. All of it is in the ledger", argv: ["events", "--type", "call."], code: exitCodes.done },
  { title: "9. And nobody has touched it since", argv: ["events", "verify"], code: exitCodes.done },
];

export function addTourCommand(program: Command, context: CommandContext): void {
  program
    .command("tour")
    .summary("see it all once, in a folder that is removed afterwards")
    .description("Make a small workspace, and see calls that are done, refused and failed, and the ledger of them.")
    .option("--keep", "leave the folder there")
    .addHelpText("after", formatExamples("qm tour", "qm tour --keep"))
    .action((options: { readonly keep?: boolean }) => runTour(context, options.keep === true));
}

async function runTour(context: CommandContext, keep: boolean): Promise<void> {
  const { out } = context;
  const folder = await realpath(await mkdtemp(join(tmpdir(), "qm-tour-")));
  try {
    for (const [name, content] of Object.entries(tourFiles)) await writeFile(join(folder, name), content);
    const seen = out.isJson ? await collectSteps(context, folder) : await showSteps(context, folder);
    if (out.isJson) out.json({ ...(keep ? { folder } : {}), stops: seen });
    if (seen.some(({ code, expected }) => code !== expected)) context.end(exitCodes.failed);
  } finally {
    if (!keep) await rm(folder, { recursive: true, force: true });
  }
  if (!out.isJson) printNextSteps(context, keep ? folder : undefined);
}

interface StepResult {
  readonly command: string;
  readonly code: number;
  readonly expected: number;
}

async function showSteps({ io, out, run }: CommandContext, folder: string): Promise<readonly StepResult[]> {
  out.line(`A fresh workspace in ${folder}, with this quartermaster.yaml:`);
  out.line();
  for (const line of tourFiles["quartermaster.yaml"].trimEnd().split("\n")) out.line(out.dim(`    ${line}`));
  const seen: StepResult[] = [];
  for (const { title, argv, code: expected, meaning } of tourSteps) {
    out.line();
    out.line(out.bold(title));
    out.line(`$ ${formatCommand(argv)}`);
    // On one stream, or a piped tour would tell its errors in another place than its story.
    const code = await run(argv, { ...io, cwd: folder, stderr: io.stdout });
    if (meaning !== undefined) out.line(out.dim(`exit code ${code}: ${meaning}`));
    seen.push({ command: formatCommand(argv), code, expected });
  }
  return seen;
}

async function collectSteps(
  { io, run }: CommandContext,
  folder: string,
): Promise<readonly (StepResult & { answer: unknown })[]> {
  const seen: (StepResult & { answer: unknown })[] = [];
  for (const { argv, code: expected } of tourSteps) {
    const parts: string[] = [];
    const stdout = { write: (part: string) => void parts.push(part), isTTY: false };
    const code = await run([...argv, "--json"], { ...io, cwd: folder, stdout, stderr: { ...stdout, write: () => {} } });
    seen.push({ command: formatCommand(argv), code, expected, answer: JSON.parse(parts.join("")) });
  }
  return seen;
}

function formatCommand(argv: TourStep["argv"]): string {
  return ["qm", ...argv].map(quoteShellWord).join(" ");
}

function printNextSteps({ out }: CommandContext, kept: string | undefined): void {
  out.line();
  out.line(kept === undefined ? "That was the tour; its folder is gone." : `That was the tour; its folder is ${kept}.`);
  out.line();
  out.line(out.bold("Three to try in a folder of your own:"));
  out.line("  qm init                                       write a quartermaster.yaml, and read it");
  out.line("  qm list                                       see what it gives");
  out.line("  qm invoke file__list '{}'                     call something; then look at `qm events`");
}
