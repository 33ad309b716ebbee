import { spawn, spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { cleanUp, createTestFolder, plainEnvironment, qmCommand } from "../src/cli/testing.ts";
import { EVENT_STREAM, formatEvent, type ScriptedAnswer, startScriptedServer } from "../src/model/testing.ts";

afterEach(cleanUp);

const hasPython = spawnSync("python3", ["-c", "import pty"]).status === 0;
if (!hasPython) console.warn("test/chat-terminal.test.ts is skipped: it needs python3 for a pseudo-terminal");

/** Starts the compiled command on a real pseudo-terminal of 100 columns. */
function startAtTerminal(cwd: string, argv: readonly string[]) {
  const [node, script = ""] = qmCommand;
  const shell = 'stty cols 100 rows 40; exec "$@"';
  const spawned = ["sh", "-c", shell, "sh", node, script, ...argv];
  const env = { ...plainEnvironment(), TERM: "xterm", NO_COLOR: "1" };
  const python = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
  const child = spawn("python3", ["-c", python, ...spawned], { cwd, env });
  onTestFinished(() => void child.kill("SIGKILL"));
  let shown = "";
  let seen = 0;
  child.stdout.on("data", (part) => {
    shown += part;
  });
  return {
    type: (text: string) => void child.stdin.write(text),
    async saw(text: string): Promise<void> {
      await vi.waitFor(() => expect(shown.slice(seen)).toContain(text), { timeout: 30_000, interval: 20 });
      seen = shown.indexOf(text, seen) + text.length;
    },
    ended: new Promise<number | null>((resolve) => child.on("exit", resolve)),
    getShown: () => shown,
  };
}

const call = (name: string, input: unknown): ScriptedAnswer => ({ toolCalls: [{ id: name, name, input }] });

test.runIf(hasPython)("a chat on a real terminal: search, call, approval, answer, Ctrl-C and resume", async () => {
  const server = await startScriptedServer(
    call("search_actions", { query: "read a file" }),
    call("invoke_action", { action_name: "file__read", args: { path: "a.txt" } }),
    call("invoke_action", {
      action_name: "file__edit",
      args: { path: "a.txt", old_string: "hello", new_string: "bye" },
    }),
    { text: "Done: it says \u001B[31mbye." },
    (response) => {
      const delta = { content: "Once upon a time" };
      response.writeHead(200, EVENT_STREAM);
      response.write(formatEvent({ id: "a", created: 0, model: "m", choices: [{ index: 0, delta }] }));
    },
    { text: "Welcome back." },
  );
  onTestFinished(() => server.close());
  const config = {
    providers: { file: { read_only: false } },
    mcp: { install: false },
    models: { default: { provider: "openai-compatible", model: "scripted", base_url: server.url, retries: 0 } },
    policy: { rules: [{ name: "ask-first", rule: "tool.name == 'file__edit'", effect: "ask" }] },
    actors: { editor: { tools: ["file__*"] } },
  };
  const cwd = await createTestFolder({ "quartermaster.yaml": JSON.stringify(config), "a.txt": "hello\n" });

  const first = startAtTerminal(cwd, ["chat", "--actor", "editor"]);
  await first.saw("you> ");
  first.type("Change hello to bye\r");
  await first.saw('search_actions {"query":"read a file"}  done');
  await first.saw("invoke_action");
  await first.saw("waits for approval");
  await first.saw("Run exactly this?");
  first.type("y\r");
  await first.saw("Done: it says \\u{1b}[31mbye.");
  expect(await readFile(join(cwd, "a.txt"), "utf8")).toBe("bye\n");
  await first.saw("you> ");
  first.type("Tell a story\r");
  await first.saw("Once upon a time");
  first.type("\u0003");
  await first.saw("Interrupted.");
  await first.saw("you> ");
  first.type("\u0004");
  expect(await first.ended).toBe(0);

  const second = startAtTerminal(cwd, ["chat", "--actor", "editor", "--resume"]);
  await second.saw("you> Tell a story");
  await second.saw("you> ");
  second.type("Are you there?\r");
  await second.saw("Welcome back.");
  await second.saw("you> ");
  second.type("\u0003");
  await second.saw("Ctrl-C again leaves");
  second.type("\u0003");
  expect(await second.ended).toBe(130);
  // Nothing of the model reached the terminal unescaped.
  expect(first.getShown()).not.toContain("\u001B[31m");
});
