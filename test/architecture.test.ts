import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { describe, expect, test } from "vitest";

/** The folders that declare the stores they need. */
const stored = [
  "core",
  "ledger",
  "policy",
  "search",
  "activation",
  "approval",
  "distribution",
  "infospace",
  "providers",
  "a2a",
  "actor",
  "mcp/manifests",
  "mcp/hub",
  "mcp/install",
];

/** Folder → the folders it may import. Read it top-down: a folder never imports one below it. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  core: [],
  catalog: ["core"],
  policy: ["core"],
  ledger: ["core"],
  search: ["core"],
  activation: ["core"],
  files: [],
  net: ["core"],
  config: ["core", "files"],
  providers: ["core", "catalog", "net"],
  sandbox: ["core"],
  distribution: ["core"],
  infospace: ["core", "catalog", "search"],
  approval: ["core", "catalog", "policy", "distribution"],
  routing: ["core", "policy"],
  telemetry: ["core"],
  model: ["core"],
  // Published: models for the tests of hosts.
  testing: ["core", "model"],
  invoke: ["core", "catalog", "policy", "activation", "approval", "routing", "distribution", "infospace", "telemetry"],
  surface: ["core", "catalog", "search", "activation", "invoke"],
  actor: ["core", "catalog", "policy", "ledger", "approval", "distribution", "infospace", "invoke", "surface"],
  a2a: ["core"],
  // The same pipeline again, with recorded results.
  replay: ["core", "catalog", "policy", "ledger", "approval", "routing", "distribution", "invoke", "surface"],
  evals: ["core", "ledger", "surface", "replay"],
  // Shared by the hub, the gateway and their configuration.
  mcp: ["core"],
  "mcp/manifests": ["core", "mcp"],
  "mcp/hub": ["core", "telemetry", "mcp", "mcp/manifests"],
  "mcp/install": ["core", "mcp"],
  "mcp/clients": ["core", "files", "mcp"],
  "mcp/provider": ["core", "catalog", "mcp", "mcp/manifests", "mcp/hub", "mcp/install"],
  store: [...stored, "files"],
  // The composition: options become wired parts.
  app: [
    "core",
    "config",
    "catalog",
    "providers",
    "policy",
    "ledger",
    "search",
    "activation",
    "approval",
    "routing",
    "distribution",
    "infospace",
    "telemetry",
    "model",
    "invoke",
    "surface",
    "actor",
    "a2a",
    "replay",
    "store",
    // The scan of texts that mislead models, for skills.
    "mcp/manifests",
  ],
  workspace: [
    "app",
    "core",
    "catalog",
    "files",
    "config",
    "policy",
    "providers",
    "sandbox",
    "routing",
    "telemetry",
    "model",
    "store",
    "mcp",
    "mcp/hub",
    "mcp/install",
    "mcp/provider",
  ],
  // The public API.
  ".": [
    "app",
    "workspace",
    "core",
    "catalog",
    "policy",
    "ledger",
    "search",
    "activation",
    "providers",
    "approval",
    "routing",
    "distribution",
    "infospace",
    "model",
    "invoke",
    "surface",
    "actor",
    "replay",
    "mcp",
    "mcp/provider",
  ],
  // Entry points: they parse, call and encode.
  http: ["app", "workspace", "core", "config", "files", "approval", "actor", "a2a"],
  "mcp/gateway": [
    "app",
    "workspace",
    "core",
    "files",
    "config",
    "surface",
    "telemetry",
    "mcp/manifests",
    "mcp/provider",
  ],
  cli: [
    ".",
    "app",
    "workspace",
    "core",
    "config",
    "ledger",
    "search",
    "surface",
    "approval",
    "actor",
    "infospace",
    "providers",
    "replay",
    "evals",
    "http",
    "mcp",
    "mcp/clients",
    "mcp/gateway",
    "mcp/manifests",
    "mcp/install",
    "mcp/provider",
  ],
};

/** Pure folders use no clock, no randomness, no process and no network. */
const IMPURE =
  /\b(?:Date\.now|new Date\(\)|performance\.now|Math\.random|setTimeout|setInterval|setImmediate|process\.|fetch\()/;
const IMPURE_MODULES = /^node:(?!vm$|crypto$|url$)/;

const root = resolve(import.meta.dirname, "../src");
const isTest = (path: string) => /\.test(-d)?\.ts$|(^|\/)testing\.ts$/.test(path);
const files = readdirSync(root, { recursive: true, encoding: "utf8" })
  .map((path) => path.split(sep).join("/"))
  .filter((path) => path.endsWith(".ts") && !isTest(path));
const textOf = (path: string) => readFileSync(join(root, path), "utf8");
/** Each folder below `mcp` counts as a folder of its own. */
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
  test("has a rule for every folder", () => {
    expect([...new Set(files.map(folderOf))].sort()).toEqual(Object.keys(mayImport).sort());
  });

  test.each(files)("%s imports only allowed folders", (path) => {
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

  test("has readable files: nine in ten have at most 260 lines", () => {
    const lengths = files.map((path) => textOf(path).split("\n").length).sort((a, b) => a - b);

    expect(lengths[Math.floor(lengths.length * 0.9)]).toBeLessThanOrEqual(260);
    expect(lengths.at(-1)).toBeLessThanOrEqual(400);
  });
});

describe("exported names", () => {
  const declaration = /^export (?:declare |abstract |async )*(function\*?|const|class|interface|type) (\w+)/gm;
  const declared = files.flatMap((path) =>
    [...textOf(path).matchAll(declaration)].map(([, kind = "", name = ""]) => ({ path, kind, name })),
  );

  test("are unique in the whole tree", () => {
    const paths = new Map<string, Set<string>>();
    for (const { name, path } of declared) paths.set(name, (paths.get(name) ?? new Set()).add(path));
    const twice = [...paths].filter(([, places]) => places.size > 1);

    expect(twice.map(([name, places]) => `${name}: ${[...places].join(", ")}`)).toEqual([]);
  });

  test("of functions are verbs, not bare participles", () => {
    const irregular =
      "kept told shown found made held said given taken sent written known seen lost paid meant done drawn";
    const participle = new RegExp(`^(?:${irregular.replaceAll(" ", "|")}|[a-z]+ed)$`);
    /** Verbs and nouns that only look like participles. */
    const allowed = ["embed", "feed", "seed", "need"];
    const functions = declared.filter(({ kind, name }) => /^(?:function|const)/.test(kind) && !allowed.includes(name));

    expect(functions.filter(({ name }) => participle.test(name))).toEqual([]);
  });

  test("come from folders, because src itself has only index.ts", () => {
    expect(files.filter((path) => !path.includes("/"))).toEqual(["index.ts"]);
  });
});

describe("the core, the policy and the catalog", () => {
  /** Timers only: they read no clock and decide nothing. */
  const timers = ["core/async.ts", "core/lease.ts"];
  const pure = files.filter((path) => ["core", "policy", "catalog"].includes(folderOf(path)) && !timers.includes(path));

  test.each(pure)("%s has no clock, no randomness, no process and no I/O", (path) => {
    const code = textOf(path).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");

    expect(code).not.toMatch(IMPURE);
    expect(importsOf(path).filter((target) => IMPURE_MODULES.test(target))).toEqual([]);
  });
});

describe("one pipeline", () => {
  test("calls handlers in one place", () => {
    const calling = /\b(?:action|target|tool)\.run\(|\{[^}]*\brun\b[^}]*\} = (?:action|target)\b/;
    const callers = files.filter((path) => calling.test(textOf(path)));

    expect(callers).toEqual(["invoke/runner.ts"]);
  });

  test("is run only by the app and replay, and only the pipeline, views and explain call the policy", () => {
    const importing = (target: string) => files.filter((path) => runtimeImportsOf(path).includes(target));

    expect(importing("invoke/invoke.ts").sort()).toEqual(["app/surface-backend.ts", "replay/answer-call.ts"]);
    expect(importing("invoke/runner.ts").sort()).toEqual(["app/wiring.ts"]);
    expect(importing("policy/decide.ts").sort()).toEqual([
      "app/caller-access.ts",
      "invoke/invoke.ts",
      "invoke/learn-source.ts",
      "policy/explain.ts",
    ]);
  });

  test("only the command's entry and the system runtime use the process", () => {
    const touching = files.filter((path) =>
      /\bprocess\.(?!versions|platform|ts")/.test(textOf(path).replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "")),
    );

    expect(touching.sort()).toEqual(["app/system-runtime.ts", "cli/launcher.ts", "cli/process.ts"]);
  });
});

/** Without `import type`, which does not exist at run time. */
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
