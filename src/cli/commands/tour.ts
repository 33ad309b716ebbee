import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { quoteShellWord } from "../../core/display-text.ts";
import type { Context } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";

const tourConfig = `providers:
  file:
    read_only: false
policy:
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
`;

type TourStep = Readonly<{ title: string; argv: readonly string[]; code: number; meaning?: string }>;
const HELLO = '{"path":"hello.txt"}';
const MISSPELT = '{"path":"helo.txt"}';
const REFUSED = "refused, so the file is still there";
const FAILED = "failed, with what to do about it";
const { done, refused, failed } = exitCodes;
const tourSteps: readonly TourStep[] = [
  { title: "1. Which actions are there?", argv: ["list"], code: done },
  { title: "2. Which one reads a file?", argv: ["search", "read a text file", "--limit", "3"], code: done },
  { title: "3. A call that succeeds", argv: ["invoke", "file__read", HELLO], code: done, meaning: "done" },
  {
    title: "4. A call that the policy denies",
    argv: ["invoke", "file__delete", HELLO],
    code: refused,
    meaning: REFUSED,
  },
  { title: "5. A call that fails", argv: ["invoke", "file__read", MISSPELT], code: failed, meaning: FAILED },
  { title: "6. Why was it denied?", argv: ["explain", "file__delete"], code: done },
  { title: "7. Other actors see less", argv: ["list", "--actor", "reader"], code: done },
  { title: "8. The ledger has every call", argv: ["events", "--type", "call."], code: done },
  { title: "9. Nobody has changed the ledger", argv: ["events", "verify"], code: done },
];

export function addTourCommand(program: Command, context: Context): void {
  program
    .command("tour")
    .summary("see the main features in a temporary folder")
    .description("Create a small workspace, make calls that succeed, are denied and fail, and show the ledger.")
    .option("--keep", "do not remove the folder")
    .addHelpText(...examples("qm tour", "qm tour --keep"))
    .action(({ keep = false }: { readonly keep?: boolean }) => runTour(context, keep));
}

async function runTour(context: Context, keep: boolean): Promise<void> {
  const { out } = context;
  const folder = await realpath(await mkdtemp(join(tmpdir(), "qm-tour-")));
  try {
    await writeFile(join(folder, "quartermaster.yaml"), tourConfig);
    await writeFile(join(folder, "hello.txt"), "Hello from Quartermaster.\n");
    const results = out.isJson ? await collectSteps(context, folder) : await showSteps(context, folder);
    if (out.isJson) out.json({ ...(keep ? { folder } : {}), stops: results });
    if (results.some(({ code, expected }) => code !== expected)) context.end(exitCodes.failed);
  } finally {
    if (!keep) await rm(folder, { recursive: true, force: true });
  }
  if (out.isJson) return;
  out.line("", `This was the tour. Its folder ${keep ? `is ${folder}` : "was removed"}.`);
  out.line("", out.bold("Three commands to try in a folder of your own:"));
  out.line("  qm init                                       write a quartermaster.yaml, and read it");
  out.line("  qm list                                       list the actions it provides");
  out.line("  qm invoke file__list '{}'                     call one; then look at `qm events`");
}

type StepResult = { readonly command: string; readonly code: number; readonly expected: number };

async function showSteps({ io, out, run }: Context, folder: string): Promise<readonly StepResult[]> {
  out.line(`A new workspace in ${folder}, with this quartermaster.yaml:`);
  out.line();
  for (const line of tourConfig.trimEnd().split("\n")) out.line(out.dim(`    ${line}`));
  const results: StepResult[] = [];
  for (const { title, argv, code: expected, meaning } of tourSteps) {
    const command = formatCommand(argv);
    out.line("", out.bold(title), `$ ${command}`);
    // On one stream, so that errors stay in their place when the tour is piped.
    const code = await run(argv, { ...io, cwd: folder, stderr: io.stdout });
    if (meaning !== undefined) out.line(out.dim(`exit code ${code}: ${meaning}`));
    results.push({ command, code, expected });
  }
  return results;
}

async function collectSteps({ io, run }: Context, folder: string) {
  const results: (StepResult & { readonly answer: unknown })[] = [];
  for (const { argv, code: expected } of tourSteps) {
    const parts: string[] = [];
    const stdout = { write: (part: string) => void parts.push(part), isTTY: false };
    const code = await run([...argv, "--json"], { ...io, cwd: folder, stdout, stderr: { ...stdout, write: () => {} } });
    results.push({ command: formatCommand(argv), code, expected, answer: JSON.parse(parts.join("")) });
  }
  return results;
}

function formatCommand(argv: readonly string[]): string {
  return ["qm", ...argv].map(quoteShellWord).join(" ");
}
