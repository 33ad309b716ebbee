import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { describe, expect, test } from "vitest";

/** The folders that say what they want of a store. */
const stored = [
  "core",
  "ledger",
  "policy",
  "search",
  "activation",
  "approval",
  "turn",
  "distribution",
  "infospace",
  "mcp/manifest",
  "mcp/hub",
  "mcp/registry",
];

/** Folder → the folders it may import. Read it top-down: nothing imports what is below it. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  core: [],
  catalog: ["core"],
  registry: ["core", "catalog"],
  policy: ["core"],
  ledger: ["core"],
  search: ["core"],
  activation: ["core"],
  // Writing files so that nothing is lost.
  files: [],
  config: ["core", "files"],
  providers: ["core", "catalog"],
  distribution: ["core"],
  infospace: ["core", "catalog", "search"],
  approval: ["core", "catalog", "policy", "distribution"],
  routing: ["core", "policy"],
  telemetry: ["core"],
  turn: ["core", "approval"],
  invoke: ["core", "catalog", "policy", "activation", "approval", "routing", "distribution", "infospace", "telemetry"],
  surface: ["core", "catalog", "search", "activation", "invoke"],
  // The same door again, with recorded results behind it.
  replay: ["core", "catalog", "policy", "ledger", "approval", "routing", "distribution", "invoke", "surface"],
  evals: ["core", "ledger", "surface", "replay"],
  // What both faces of MCP, and whoever configures them, speak of.
  mcp: ["core"],
  "mcp/manifest": ["core", "mcp"],
  "mcp/hub": ["core", "telemetry", "mcp", "mcp/manifest"],
  "mcp/registry": ["core", "mcp"],
  "mcp/clients": ["core", "files", "mcp"],
  "mcp/provider": ["core", "catalog", "mcp", "mcp/manifest", "mcp/hub", "mcp/registry"],
  "mcp/servers": ["core", "catalog", "mcp", "mcp/manifest", "mcp/hub", "mcp/registry", "mcp/provider"],
  store: [...stored, "files"],
  testing: [...stored, "store"],
  // The composition root: quartermaster.ts, what only it needs, and the public API.
  ".": [
    "core",
    "catalog",
    "registry",
    "policy",
    "ledger",
    "search",
    "activation",
    "files",
    "config",
    "providers",
    "approval",
    "routing",
    "distribution",
    "infospace",
    "telemetry",
    "turn",
    "invoke",
    "surface",
    "replay",
    "store",
    "mcp",
    "mcp/manifest",
    "mcp/hub",
    "mcp/registry",
    "mcp/servers",
  ],
  // Doors, as the command line is one: they know the quartermaster and what they show.
  http: [".", "core", "config", "files", "approval"],
  "mcp/gateway": [
    ".",
    "core",
    "files",
    "config",
    "surface",
    "telemetry",
    "mcp/manifest",
    "mcp/provider",
    "mcp/servers",
  ],
  cli: [
    ".",
    "core",
    "config",
    "ledger",
    "search",
    "surface",
    "approval",
    "infospace",
    "replay",
    "evals",
    "http",
    "mcp",
    "mcp/clients",
    "mcp/gateway",
    "mcp/manifest",
    "mcp/registry",
    "mcp/provider",
    "mcp/servers",
  ],
};

/** What the core and everything pure may not touch: the clock, chance, the process and the network. */
const IMPURE =
  /\b(?:Date\.now|new Date\(\)|performance\.now|Math\.random|setTimeout|setInterval|setImmediate|process\.|fetch\()/;
const IMPURE_MODULES = /^node:(?!vm$|crypto$|url$)/;

const root = resolve(import.meta.dirname, "../src");
const isTest = (path: string) => /\.test(-d)?\.ts$|(^|\/)testing\.ts$/.test(path);
const files = readdirSync(root, { recursive: true, encoding: "utf8" })
  .map((path) => path.split(sep).join("/"))
  .filter((path) => path.endsWith(".ts") && !isTest(path));
const textOf = (path: string) => readFileSync(join(root, path), "utf8");
/** The two faces of MCP are as far apart as folders get, so each folder below `mcp` counts as one. */
const folderOf = (path: string) => {
  const parts = path.split("/").slice(0, -1);
  return parts.slice(0, parts[0] === "mcp" ? 2 : 1).join("/") || ".";
};

/** Every import of a file, relative ones as paths below src. */
function importsOf(path: string): readonly string[] {
  const found = textOf(path).matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g);
  return [...found].map(([, target = ""]) =>
    target.startsWith(".")
      ? relative(root, resolve(root, dirname(path), target))
          .split(sep)
          .join("/")
      : target,
  );
}

describe("the tree", () => {
  test("has no folder that nobody has placed", () => {
    expect([...new Set(files.map(folderOf))].sort()).toEqual(Object.keys(mayImport).sort());
  });

  test.each(files)("%s imports only what its folder may", (path) => {
    const folder = folderOf(path);
    const allowed = [folder, ...(mayImport[folder] ?? [])];
    const relativeImports = importsOf(path).filter((target) => files.includes(target) || target.startsWith(".."));

    expect(relativeImports.filter((target) => !allowed.includes(folderOf(target)))).toEqual([]);
  });

  test("has no cycle", () => {
    const state = new Map<string, "open" | "done">();
    const cycles: string[] = [];
    const visit = (path: string, way: readonly string[]): void => {
      if (state.get(path) === "done") return;
      if (state.get(path) === "open") {
        cycles.push([...way.slice(way.indexOf(path)), path].join(" → "));
        return;
      }
      state.set(path, "open");
      for (const target of runtimeImportsOf(path)) visit(target, [...way, path]);
      state.set(path, "done");
    };
    for (const path of files) visit(path, []);

    expect(cycles).toEqual([]);
  });

  test("is made of files one can read: nine in ten have at most 250 lines", () => {
    const lengths = files.map((path) => textOf(path).split("\n").length).sort((a, b) => a - b);

    expect(lengths[Math.floor(lengths.length * 0.9)]).toBeLessThanOrEqual(250);
    expect(lengths.at(-1)).toBeLessThanOrEqual(400);
  });
});

describe("the core, the policy and the catalog", () => {
  /** Timers only: they read no clock and decide nothing. */
  const timers = ["core/async.ts", "core/lease.ts"];
  const pure = files.filter(
    (path) => ["core", "policy", "catalog", "registry"].includes(folderOf(path)) && !timers.includes(path),
  );

  test.each(pure)("%s has no clock, no chance, no process and no I/O", (path) => {
    const code = textOf(path).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");

    expect(code).not.toMatch(IMPURE);
    expect(importsOf(path).filter((target) => IMPURE_MODULES.test(target))).toEqual([]);
  });
});

describe("one door", () => {
  test("an action's handler is called in one place", () => {
    const calling = /\b(?:action|target|tool)\.run\(|\{[^}]*\brun\b[^}]*\} = (?:action|target)\b/;
    const callers = files.filter((path) => calling.test(textOf(path)));

    expect(callers).toEqual(["invoke/run.ts"]);
  });

  test("only the counter opens the door, and replay one with nothing behind it; only the door and the views ask the policy", () => {
    const importing = (target: string) => files.filter((path) => runtimeImportsOf(path).includes(target));

    expect(importing("invoke/invoke.ts")).toEqual(["counter.ts", "replay/door.ts"]);
    expect(importing("invoke/run.ts")).toEqual(["wiring.ts"]);
    expect(importing("policy/decide.ts").sort()).toEqual(["invoke/invoke.ts", "policy/explain.ts", "views.ts"]);
  });

  test("the process is touched by the command's own entry and the real runtime only", () => {
    const touching = files.filter((path) =>
      /\bprocess\.(?!versions|platform|ts")/.test(textOf(path).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "")),
    );

    expect(touching.sort()).toEqual(["cli/bin.ts", "system-runtime.ts"]);
  });
});

/** Without `import type`, which is gone at run time. */
function runtimeImportsOf(path: string): readonly string[] {
  const types = new Set(
    [...textOf(path).matchAll(/(?:import|export) type [^;]*? from "([^"]+)"/g)].map(([, target = ""]) => target),
  );
  const typeOnly = new Set(
    [...types].map((target) =>
      relative(root, resolve(root, dirname(path), target))
        .split(sep)
        .join("/"),
    ),
  );
  return importsOf(path).filter((target) => files.includes(target) && !typeOnly.has(target));
}
