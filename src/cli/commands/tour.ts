import { appendFile, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { quoteShellWord } from "../../core/display-text.ts";
import { type Context, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";

// Not imported: the help of all commands loads this file, and would load the parser of the configuration.
const CONFIG_FILE = "quartermaster.yaml";
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

type TourOptions = Readonly<{ keep?: boolean; serve?: boolean; once?: boolean }>;

export function addTourCommand(program: Command, context: Context): void {
  program
    .command("tour")
    .summary("see the main features in a temporary folder")
    .description("Create a small workspace, make calls that succeed, are denied and fail, and show the ledger.")
    .option("--serve", "afterwards serve the workspace to MCP clients until Ctrl-C, on a free port")
    .option("--once", "only take the tour, even with --serve")
    .option("--keep", "do not remove the folder")
    .addHelpText(...examples("qm tour", "qm tour --serve", "qm tour --keep"))
    .action((options: TourOptions) => runTour(context, options));
}

async function runTour(caller: Context, { keep = false, serve = false, once = false }: TourOptions): Promise<void> {
  const { out } = caller;
  const { watchHangup } = await import("../../app/system-runtime.ts");
  const io = { ...caller.io, signal: AbortSignal.any([caller.io.signal, watchHangup()]) };
  const context = { ...caller, io };
  const folder = await realpath(await mkdtemp(join(tmpdir(), "qm-tour-")));
  try {
    await writeFile(join(folder, CONFIG_FILE), tourConfig);
    await writeFile(join(folder, "hello.txt"), "Hello from Quartermaster.\n");
    const results = out.isJson ? await collectSteps(context, folder) : await showSteps(context, folder);
    if (results.some(({ code, expected }) => code !== expected)) context.end(exitCodes.failed);
    const answer = { ...(keep ? { folder } : {}), stops: results };
    if (serve && !once && !io.signal.aborted) await serveTour(context, folder, answer);
    else if (out.isJson) out.json(answer);
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

/** Serves the workspace until Ctrl-C, and prints how a client reaches it. */
async function serveTour(context: Context, folder: string, answer: object): Promise<void> {
  const { runServe } = await import("./serve.ts");
  const { ownBin } = await import("../clients/gateway-entry.ts");
  const { out } = context;
  const configPath = join(folder, CONFIG_FILE);
  const signal = AbortSignal.any([context.io.signal, await watchNpm(context.io)]);
  const own = { ...context, io: { ...context.io, cwd: folder, signal }, globals: { color: context.globals.color } };
  const options = { host: "127.0.0.1", port: 0, start: true };
  await withWorkspace(own, "calls", (workspace) =>
    runServe(own, workspace, options, async ({ url, tokenPath }) => {
      // `qm connect --http` reads the port from the configuration.
      await appendFile(configPath, `gateway:\n  port: ${new URL(url).port}\n`);
      const token = (await readFile(tokenPath, "utf8")).trim();
      const words = ["node", ownBin, "connect", "claude-code", "--http", "--name", "qm-tour", "--config", configPath];
      const connect = words.map(quoteShellWord).join(" ");
      if (out.isJson) return out.json({ ...answer, url, token, connect });
      out.line("", out.bold("10. The gateway runs, for any MCP client"));
      out.line(`address:  ${url}`, `token:    ${token}`, "", "To connect Claude Code, run this in another terminal:");
      out.line(`  ${connect}`, "The same command with --undo disconnects it, also after the tour.");
      out.line("", "Press Ctrl-C to stop the gateway and remove its folder.");
    }),
  );
}

/** Aborts when the shell between npm and this process ends. npm sends a SIGTERM to that shell only. */
async function watchNpm({ env }: Context["io"]): Promise<AbortSignal> {
  const { systemProcess } = await import("../../app/system-runtime.ts");
  const ended = new AbortController();
  const parent = systemProcess.ppid;
  const check = () => {
    if (systemProcess.ppid !== parent) ended.abort();
  };
  if (env.npm_lifecycle_event !== undefined) setInterval(check, 500).unref();
  return ended.signal;
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
