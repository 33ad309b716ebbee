import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { cleanUp, createTestFolder, plainEnvironment, qm, qmCommand } from "../../src/cli/testing.ts";

// No input from a model, a client or a server may block the event loop for long. The test measures the longest stretch of
// work in a real `qm serve`, in CPU time of its main thread, while it polls /health.

const LIMIT_MS = 100;

afterEach(cleanUp);

const fixture = (name: string) => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
const letters = Array.from({ length: 400_000 }, (_, at) => (((at * 2_654_435_761) >>> 16) % 3 ? "a" : "b")).join("");
const numbers = Array.from({ length: 3_000 }, (_, at) => at);
const alternatives = Array.from({ length: 70 }, (_, at) => `[ab]{${920 + at}}c`).join("|");

/** A call that requires approval and shows the text to a person. */
function approvalCase(what: string, text: string): readonly [string, string, object] {
  return [`approval: ${what}`, "file__write", { path: "ask.txt", content: text }];
}

/** Name, action, arguments. */
const corpus: readonly (readonly [string, string, object])[] = [
  ["grep: 70 counted alternatives", "file__grep", { pattern: alternatives.slice(0, 990), path: "line.txt" }],
  [
    "grep: counted alternatives below the size limit",
    "file__grep",
    { pattern: "[ab]{300}c|[ab]{301}d|a{302}e", path: "line.txt" },
  ],
  ["grep: a state for each character", "file__grep", { pattern: "a.{450}z", path: "line.txt" }],
  ["grep: a large class", "file__grep", { pattern: "(?:\\pL|\\pN){300}\\pZ", path: "line.txt" }],
  ["grep: many short lines", "file__grep", { pattern: "(a|b)*.{100}z", path: "lines.txt" }],
  [
    "glob: many long alternatives",
    "file__glob",
    { pattern: `{${Array.from({ length: 200 }, (_, at) => `a${at}*b?`).join(",")}}/**` },
  ],
  ["path: 2,000 parts", "file__read", { path: "a/".repeat(2_000) }],
  [
    "path: 128 long parts",
    "file__read",
    { path: Array.from({ length: 128 }, () => "part-of-a-long-path-of-some-30b").join("/") },
  ],
  [
    "edit: a near match in one long line",
    "file__edit",
    { path: "line.txt", old_string: `${letters.slice(0, 100_000)}!`, new_string: "" },
  ],
  [
    "edit: no match in many lines",
    "file__edit",
    { path: "lines.txt", old_string: letters.slice(7, 400), new_string: "" },
  ],
  ["list: a folder that is a file", "file__list", { path: "lines.txt/".repeat(50) }],
  ["grep: everything", "file__grep", { pattern: ".", path: "lines.txt", context: 10, limit: 1000 }],
  ["rule: loops in loops", "infospace__create-note", { value: { list: numbers } }],
  ["rule: a pattern and a long text", "file__write", { path: "out.txt", content: letters }],
  ["name: a megabyte", "x".repeat(900_000), {}],
  ["name: nearly right", "file__reed_fiel_".repeat(5_000), {}],
  ["arguments: deep", "file__read", JSON.parse(`${'{"path":'.repeat(250)}1${"}".repeat(250)}`)],
  ["arguments: wide", "file__read", Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => [`key${at}`, at]))],
  [
    "arguments: the most fields that are accepted",
    "file__read",
    Object.fromEntries(Array.from({ length: 7_600 }, (_, at) => [`key${at}`, at])),
  ],
  ["arguments: a long list", "file__read", { path: Array.from({ length: 150_000 }, () => 1) }],
  [
    "arguments: JSON in JSON",
    "file__read",
    { path: JSON.stringify(JSON.stringify(JSON.stringify(letters.slice(0, 100_000)))) },
  ],
  ["secrets: many half secrets", "file__write", { path: "out.txt", content: "password=".repeat(60_000) }],
  [
    "secrets: a key that never ends",
    "file__write",
    { path: "out.txt", content: "-----BEGIN PRIVATE KEY-----".repeat(20_000) },
  ],
  [
    "notes: a filter with loops",
    "infospace__filter-structured",
    { target: "NOTES", where: "numbers.all(a, numbers.all(b, numbers.all(c, a + b + c >= 0)))" },
  ],
  [
    "notes: a filter that counts fields in a loop",
    "infospace__filter-structured",
    { target: "NOTES", where: "numbers.all(a, numbers.all(b, size(fields) > 0))" },
  ],
  [
    "notes: a filter with time zones in a loop",
    "infospace__filter-structured",
    {
      target: "NOTES",
      where: "numbers.all(a, timestamp('2024-01-01T00:00:00Z').getFullYear('America/New_York') > 0)",
    },
  ],
  ["grep: case-insensitive ranges", "file__grep", { pattern: `(?i)${"[B-\u{1e942}]".repeat(120)}`, path: "line.txt" }],
  [
    "notes: a filter with a pattern",
    "infospace__filter-structured",
    { target: "NOTES", where: "text.matches('a.{300}z')" },
  ],
  ["notes: a join with everything", "infospace__join", { target: "NOTES", with: "NOTES", on: "same" }],
  ["notes: sorting long texts", "infospace__sort", { target: "NOTES", by: "text" }],
  ["search: a pattern", "search_actions", { query: "(a.{0,40}b.{0,40}){3}z", search_type: "regex" }],
  ["search: long words", "search_actions", { query: `${letters.slice(0, 2_000)} `.repeat(50) }],
  ...Array.from({ length: 12 }, (_, at) => approvalCase(`look-alikes ${at}`, "\u0430 ".repeat(125_000 - at))),
  approvalCase("look-alikes in one word", "\u0430".repeat(250_000)),
  approvalCase("look-alikes, longer than a person reads", "\u0430 ".repeat(500_000)),
  approvalCase("characters that cannot be seen", "\u200B".repeat(250_000)),
  approvalCase("masks", "[secret X] ".repeat(20_000)),
  ["approvals: a list of long ones", "approval__list", {}],
  ["server: patterns", "mcp__hostile__patterns", {}],
  ["server: patterns with many states", "mcp__hostile__states", {}],
  ["server: a backtracking pattern", "mcp__hostile__backtracking", {}],
  ["server: references that multiply", "mcp__hostile__references", {}],
  ["server: choices", "mcp__hostile__choices", {}],
  ["server: many types", "mcp__hostile__types", {}],
  ["server: allowed values", "mcp__hostile__allowed", {}],
  ["server: items checked repeatedly", "mcp__hostile__items", {}],
  ["server: unique items", "mcp__hostile__unique", {}],
  ["server: unevaluated properties", "mcp__hostile__unevaluated", {}],
];

test.skipIf(process.platform !== "linux")(
  "no hostile input blocks the event loop for 100 ms",
  { timeout: 300_000 },
  async () => {
    const config = {
      providers: { file: { read_only: false } },
      policy: {
        rules: [
          {
            name: "loops",
            rule: "has(args.value) && args.value.list.all(a, args.value.list.all(b, args.value.list.all(c, a + b + c >= 0)))",
            effect: "deny",
          },
          {
            name: "ask-first",
            rule: "has(args.path) && args.path == 'ask.txt'",
            effect: "ask",
          },
          {
            name: "pattern",
            rule: "has(args.content) && args.content.matches('a.{300}z')",
            effect: "deny",
          },
        ],
      },
      servers: { hostile: { command: process.execPath, args: [fixture("hostile-server.mjs")] } },
    };
    const cwd = await createTestFolder({
      "quartermaster.yaml": JSON.stringify(config),
      "line.txt": `${letters}\n`,
      "lines.txt": `${letters.slice(0, 120)}\n`.repeat(20_000),
      "small.txt": "one line\n",
    });
    expect(await qm(cwd, ["servers", "start"], { env: plainEnvironment() })).toMatchObject({ code: 0 });
    const stallFile = join(cwd, ".stall");
    const [node = "", ...rest] = qmCommand;
    const monitor = pathToFileURL(fixture("stall-monitor.mjs")).href;
    const child = spawn(node, ["--import", monitor, ...rest, "serve", "--port", "0", "--json"], {
      cwd,
      env: { ...plainEnvironment(), STALL_FILE: stallFile },
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const [line] = (await Promise.race([once(child.stdout, "data"), once(child, "close")])) as [Buffer | number];
    const { url, tokenPath } = JSON.parse(String(line)) as { url: string; tokenPath: string };
    const token = (await readFile(tokenPath, "utf8")).trim();
    const call = (action: string, args: object) => callTool({ url, token }, action, args);

    /** Returns the longest stretch since the previous call. */
    async function takeLongest(): Promise<number> {
      await rm(stallFile, { force: true });
      child.kill("SIGUSR2");
      return Number(
        await vi.waitFor(() => readFile(stallFile, "utf8").then((text) => text.trim() || Promise.reject()), {
          timeout: 60_000,
        }),
      );
    }

    // Use every action once first: loading and compiling on first use does not count against the input.
    const notes = await call("infospace__create-collection", {
      items: Array.from({ length: 300 }, (_, at) => ({
        same: 1,
        text: letters.slice(at, at + 2_000),
        numbers: numbers.slice(0, 300),
        fields: Object.fromEntries(numbers.slice(0, 20).map((at) => [`f${at}`, at])),
      })),
    });
    const handle = /collection__\d+/.exec(notes.text)?.[0] ?? "";
    expect(handle, notes.text).not.toBe("");
    for (const action of new Set(corpus.map(([, name]) => name)))
      await call(action.slice(0, 100), createHarmlessArgs(action, handle));
    await takeLongest();

    let healthy = 0;
    const measured: (readonly [string, number])[] = [];
    for (const [name, action, args] of corpus) {
      const work = call(action, withHandle(args, handle));
      let ended = false;
      void work.finally(() => {
        ended = true;
      });
      while (!ended) {
        expect((await fetch(new URL("/health", url))).status).toBe(200);
        healthy++;
      }
      const { status, text } = await work;
      // A misspelt argument in this list would test nothing.
      if (!name.startsWith("arguments:")) expect(text, name).not.toMatch(/must (?:NOT )?have (?:required|additional)/);
      if (text.includes("invalid_expression")) expect(text, name).toMatch(/more work than one call may do/);
      expect(status, name).toBeLessThan(500);
      measured.push([name, Math.max(0, (await takeLongest()) - parsingTime(args))]);
    }

    const longest = [...measured].sort(([, a], [, b]) => b - a);
    console.log(
      [
        `longest stretch of work on the main thread beyond parsing, of ${measured.length} hostile inputs (${healthy} answers of /health):`,
      ]
        .concat(longest.slice(0, 8).map(([name, ms]) => `  ${ms.toFixed(0).padStart(4)} ms  ${name}`))
        .join("\n"),
    );
    expect(child.exitCode).toBeNull();
    expect(longest.filter(([, ms]) => ms >= LIMIT_MS)).toEqual([]);
  },
);

/** The CPU time that parsing such a message takes on this machine right now. */
function parsingTime(args: object): number {
  const body = JSON.stringify(args);
  const before = process.cpuUsage();
  JSON.parse(body);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** Harmless arguments for the same action. */
function createHarmlessArgs(action: string, handle: string): object {
  if (action.startsWith("mcp__") || action.startsWith("x")) return {};
  if (action === "search_actions") return { query: "read a file" };
  if (action === "approval__list") return {};
  if (action === "infospace__join") return { target: handle, with: handle, on: "text" };
  if (action === "infospace__sort") return { target: handle, by: "same" };
  if (action === "infospace__create-note") return { value: { list: [1] } };
  if (action.startsWith("infospace__")) return { target: handle, where: "same == 1 && text.matches('x$')" };
  const path = "small.txt";
  const rest = {
    file__grep: { pattern: "line" },
    file__write: { path: "out.txt", content: "x" },
    file__glob: { pattern: "*.md" },
  };
  const edit = action === "file__edit" ? { old_string: "not there", new_string: "" } : {};
  return {
    ...(action === "file__glob" || action === "file__list" ? {} : { path }),
    ...edit,
    ...rest[action as keyof typeof rest],
  };
}

function withHandle(args: object, handle: string): object {
  return JSON.parse(JSON.stringify(args).replaceAll('"NOTES"', JSON.stringify(handle)));
}

async function callTool(
  { url, token }: { readonly url: string; readonly token: string },
  action: string,
  args: object,
): Promise<{ readonly status: number; readonly text: string }> {
  const isTool = action === "search_actions";
  const name = isTool ? action : "invoke_action";
  const response = await fetch(url, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": name,
    },
    body: JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: {
        name,
        arguments: isTool ? args : { action_name: action, args },
        _meta: {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": {},
        },
      },
    }),
  });
  return { status: response.status, text: await response.text() };
}
