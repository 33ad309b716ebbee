import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { readPackageInfo } from "../src/app/system-runtime.ts";
import { exitCodes } from "../src/cli/exit-codes.ts";
import { main } from "../src/cli/main.ts";
import { parseConfig } from "../src/config/parse.ts";
import { errorCodes } from "../src/core/errors.ts";
import { eventShapes } from "../src/core/event-shapes.ts";
import { CALL_VARIABLES, compileCondition } from "../src/core/expression.ts";
import { policyLayers } from "../src/policy/objection.ts";
import { findCompiled } from "./support/compiled.ts";

const root = resolve(import.meta.dirname, "..");
const textOf = (path: string) => readFileSync(join(root, path), "utf8");
const filesBelow = (folder: string, ending: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name));
const pages = [...readdirSync(root).filter((name) => name.endsWith(".md")), ...filesBelow("docs", ".md")];
const examples = readdirSync(join(root, "examples")).filter((name) => name.endsWith(".ts"));

describe("docs/errors.md", () => {
  test("lists exactly the existing codes, with HTTP status and retryability", () => {
    const documented = rowsOf("docs/errors.md").map(([code, http, retryable, means, todo]) => ({
      code,
      http,
      retryable,
      isExplained: means !== "" && todo !== "",
    }));

    const expected = Object.entries(errorCodes).map(([code, { http, retryable }]) => ({
      code: `\`${code}\``,
      http: String(http),
      retryable: retryable ? "yes" : "no",
      isExplained: true,
    }));
    expect(documented).toEqual(expected.sort((a, b) => (a.code < b.code ? -1 : 1)));
  });
});

describe("docs/events.md", () => {
  test("lists exactly the existing types, with their fields", () => {
    const documented = rowsOf("docs/events.md").map(([type, when, fields]) => ({ type, fields, isSaid: when !== "" }));

    const expected = Object.entries(eventShapes).map(([type, { shape }]) => ({
      type: `\`${type}\``,
      fields: Object.entries(shape)
        .map(([field, schema]) => `\`${field}${schema.def.type === "optional" ? "?" : ""}\``)
        .join(", "),
      isSaid: true,
    }));
    expect(documented).toEqual(expected.sort((a, b) => (a.type < b.type ? -1 : 1)));
  });
});

describe("docs/glossary.md", () => {
  const terms = rowsOf("docs/glossary.md").map(([term]) => term);
  const words =
    "action actor approval budget caller catalog category chain decision effect entry event generalist invoke layer ledger outcome policy provider repair resource rule session specialist store surface tag tenant tool turn user view";

  test.each(words.split(" "))("explains %s", (word) => {
    expect(terms).toContain(word);
  });

  test("lists every term once, in order", () => {
    expect(terms).toEqual([...new Set(terms)].sort());
  });
});

describe("README.md", () => {
  test("sets up with exactly two commands, each in its own block", () => {
    const commands = blocksOf("README.md", "sh");

    expect(commands).toEqual(["npm ci && npm start\n", "npm ci && npm test\n"]);
  });

  test("begins with how to install the packed package", async () => {
    const { version, scripts } = JSON.parse(textOf("package.json"));
    const [, line = ""] = textOf("README.md").split("\n\n");

    expect(line).toContain(`npm pack && npm install -g ./quartermaster-${version}.tgz`);
    // `npm start -- --once` appends its option to this.
    expect(scripts.start).toBe("node dist/bin/qm.js tour --serve");
  });

  test("shows the actual output of the tour", async () => {
    const [shown = ""] = blocksOf("README.md", "text");

    const { out, code } = await qm(["tour"]);

    expect(code).toBe(exitCodes.done);
    let at = 0;
    for (const part of shown.split("...\n")) {
      expect(out.slice(at)).toContain(part);
      at = out.indexOf(part, at) + part.length;
    }
  });

  test("leaves the table of commands to docs/cli.md, which lists every command", async () => {
    const rows = rowsOf("docs/cli.md").filter(([command = ""]) => command.startsWith("`qm "));
    const named = rows.map(([command = ""]) => nameOf(command));

    expect(named.sort()).toEqual([...(await commandsOf([]))].sort());
  });
});

describe("a snippet", () => {
  const snippets = pages.flatMap((page) => blocksOf(page, "ts").map((text, at) => ({ page, at: at + 1, text })));
  const regions = examples.flatMap((name) => regionsOf(textOf(`examples/${name}`))).join("// #endregion\n");

  test.each(snippets)("number $at of $page is part of an example", ({ text }) => {
    expect(regions).toContain(withSourcePaths(text));
  });

  test.each(["README.md", "docs/guides/write-policy.md"])("with a configuration in %s can be loaded", (page) => {
    const blocks = blocksOf(page, "yaml");
    const compileExpression = (text: string) => compileCondition(text, CALL_VARIABLES);

    const loaded = blocks.map((text) => parseConfig(Buffer.from(text), page, { compileExpression }));

    expect(loaded.length).toBeGreaterThan(0);
    for (const { config } of loaded)
      expect(config.policy.rules.length + Object.keys(config.policy.gates).length).toBeGreaterThan(0);
  });
});

test.concurrent.each(examples)("examples/%s runs without errors", async (name) => {
  const { code, err } = await ran(join("examples", name));

  expect({ code, err }).toEqual({ code: 0, err: "" });
});

describe("docs/cli.md", async () => {
  const page = textOf("docs/cli.md");
  const documented = [...page.matchAll(/^### (`qm .*`)$/gm)].map(([, command = ""]) => nameOf(command));
  const commands = await commandsOf([]);

  test("has a section for exactly the existing commands", () => {
    expect(commands.length).toBeGreaterThan(5);
    expect([...documented].sort()).toEqual([...commands].sort());
  });

  test.each(commands)("names every option of qm %s", async (command) => {
    const { out } = await qm([...command.split(" "), "--help"]);

    const options = [...out.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map(([, option = ""]) => option);
    expect(options.filter((option) => !page.includes(`\`${option}`))).toEqual([]);
  });

  test("lists exactly the existing exit codes", () => {
    const rows = rowsOf("docs/cli.md").filter(([code = ""]) => /^\d+$/.test(code));

    expect(rows.map(([code, name]) => [name, Number(code)])).toEqual(
      Object.entries(exitCodes).map(([name, code]) => [`\`${name}\``, code]),
    );
  });
});

describe("docs/architecture.md", () => {
  const rows = rowsOf("docs/architecture.md").filter(([folder = ""]) => /^`src(?:\/[\w/]+)?`$/.test(folder));
  const folders = new Map(rows.map(([folder = "", , imports = ""]) => [folder.slice(5, -1), imports]));
  const source = filesBelow("src", ".ts").filter((path) => !/\.test(?:-d)?\.ts$|\/testing\.ts$/.test(path));

  /** The folder below `src`: the first part of the path, for `mcp` the first two, and `.` for `src` itself. */
  function folderOf(path: string): string {
    const parts = path.split("/").slice(1, -1);
    return parts.slice(0, parts[0] === "mcp" ? 2 : 1).join("/") || ".";
  }

  test("lists every folder", () => {
    const there = new Set(source.map(folderOf).filter((name) => name !== "."));

    expect([...folders.keys()].sort()).toEqual([...there].sort());
  });

  test.each(source)("lists the imports of %s", (path) => {
    const folder = folderOf(path);
    const imported = [...textOf(path).matchAll(/from "(\.[^"]+)"|import\("(\.[^"]+)"\)/g)]
      .map(([, fixed, later]) => folderOf(join(dirname(path), fixed ?? later ?? "")))
      .filter((name) => name !== folder);

    const allowed = folders.get(folder);
    if (allowed !== undefined) expect(imported.filter((name) => !allowed.includes(`\`${name}\``))).toEqual([]);
  });
});

test("docs/security.md names a test for every promise", () => {
  const promises = rowsOf("docs/security.md").filter((row) => row.length === 3 && row[0] !== "promise");
  const tests = promises.map(([, , named = ""]) => [...named.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path));

  expect(promises.length).toBeGreaterThan(30);
  expect(tests.filter((paths) => paths.length === 0)).toEqual([]);
  expect(tests.flat().filter((path) => !existsSync(path))).toEqual([]);
});

describe("the rule no-dotfiles of docs/guides/write-policy.md", () => {
  const [text = ""] = blocksOf("docs/guides/write-policy.md", "yaml");
  const { config } = parseConfig(Buffer.from(text), "write-policy.md");
  const rule = config.policy.rules.find(({ name }) => name === "no-dotfiles")?.rule ?? "";
  const { holds } = compileCondition(rule, CALL_VARIABLES);

  test.each<[Record<string, string>, boolean]>([
    [{}, false],
    [{ path: "." }, false],
    [{ path: "./src/a.b.ts" }, false],
    [{ path: "src/" }, false],
    [{ path: ".env" }, true],
    [{ path: "./.env" }, true],
    [{ path: "d/.env" }, true],
    [{ path: "d/..env" }, true],
    [{ path: ".git/config" }, true],
  ])("%j: %s", (args, expected) => {
    expect(holds({ tool: { category: "file" }, actor: {}, ctx: {}, args })).toBe(expected);
  });
});

test("docs/guides/write-policy.md lists every layer in order, and every variable", () => {
  const names = rowsOf("docs/guides/write-policy.md").map(([name = ""]) => name.slice(1, -1));

  expect(names).toEqual([...policyLayers, ...CALL_VARIABLES]);
});

test.each(pages)("every link of %s resolves", (page) => {
  const prose = textOf(page).replace(/^```.*?^```/gms, "");
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);

  const relative = links.filter((target) => !/^(?:https?:|#)/.test(target));
  expect(relative.filter((target) => !existsSync(join(root, dirname(page), target.replace(/#.*$/, ""))))).toEqual([]);
});

test("every decision has its own number, and context, decision and consequences", () => {
  const decisions = filesBelow("docs/decisions", ".md").sort();

  const numbers = decisions.map((path) => /(\d{4})-[a-z0-9-]+\.md$/.exec(path)?.[1]);
  expect(numbers).toEqual(decisions.map((_, at) => String(at + 1).padStart(4, "0")));
  for (const [at, path] of decisions.entries()) {
    const headings = [...textOf(path).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading);
    expect(headings[0]).toMatch(new RegExp(`^${numbers[at]}: `));
    expect(headings.slice(1)).toEqual(["Context", "Decision", "Consequences"]);
  }
});

test("AGENTS.md is short, and names only existing files", () => {
  const text = textOf("AGENTS.md");
  const paths = [...text.matchAll(/`((?:src|docs|test)\/[\w./-]+)`/g)].map(([, path = ""]) => path);

  expect(text.split("\n").length).toBeLessThanOrEqual(81);
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

test("CHANGELOG.md lists the version of the package", () => {
  expect(textOf("CHANGELOG.md")).toMatch(
    new RegExp(`^## \\[${readPackageInfo().version.replaceAll(".", "\\.")}\\]`, "m"),
  );
});

/** The rows of every table of a page, without headers. */
function rowsOf(page: string): readonly (readonly string[])[] {
  const lines = textOf(page).split("\n");
  const isRow = (line: string | undefined) => line?.startsWith("|") === true;
  return lines
    .filter((line, at) => isRow(line) && !line.startsWith("|---") && !lines[at + 1]?.startsWith("|---"))
    .map((line) =>
      line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim()),
    );
}

function blocksOf(page: string, language: string): readonly string[] {
  return [...textOf(page).matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms"))].map(([, text = ""]) => text);
}

function regionsOf(text: string): readonly string[] {
  return [...text.matchAll(/^\/\/ #region [^\n]*\n(.*?)^\/\/ #endregion$/gms)].map(([, region = ""]) => region);
}

/** Readers import the package, examples its source. `exports` maps both to the same files. */
function withSourcePaths(snippet: string): string {
  const { exports } = readPackageInfo() as unknown as { readonly exports: Readonly<Record<string, string>> };
  return snippet.replace(/from "quartermaster(\/[\w-]+)?"/g, (_, subpath = "") => {
    const built = exports[`.${subpath}`] ?? "no such export";
    return `from "${built.replace("./dist/", "../src/").replace(/\.js$/, ".ts")}"`;
  });
}

/** "`qm events verify <x>`" → "events verify" */
function nameOf(command: string): string {
  return /^`qm ([a-z ]*[a-z])/.exec(command)?.[1] ?? command;
}

/** Every command and subcommand of the help. */
async function commandsOf(above: readonly string[]): Promise<readonly string[]> {
  const { out } = await qm([...above, "--help"]);
  const listed = /^Commands:\n((?: {2}.*\n)+)/m.exec(out)?.[1] ?? "";
  const names = [...listed.matchAll(/^ {2}([a-z]+)/gm)].map(([, name = ""]) => name);
  const below = await Promise.all(
    names.map((name) => (name === "help" ? [] : commandsOf([...above, name])) as Promise<readonly string[]>),
  );
  return names.flatMap((name, at) => [[...above, name].join(" "), ...(below[at] ?? [])]);
}

/** Runs the program in this process, on a terminal wide enough for every line. */
async function qm(argv: readonly string[]): Promise<{ out: string; code: number }> {
  const parts: string[] = [];
  const stream = { write: (text: string) => void parts.push(text), isTTY: false, columns: 1000 };
  async function* nothing(): AsyncGenerator<string> {}
  const code = await main(argv, {
    stdin: nothing(),
    stdout: stream,
    stderr: stream,
    cwd: root,
    env: {},
    signal: new AbortController().signal,
    nodeVersion: process.versions.node,
    platform: process.platform,
    execPath: process.execPath,
    importModule: (url) => import(url),
  });
  return { out: parts.join(""), code };
}

function ran(script: string): Promise<{ code: number | null; err: string }> {
  const child = spawn(process.execPath, [findCompiled(script)], {
    cwd: root,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let err = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
  });
  return new Promise((done) => child.on("close", (code) => done({ code, err })));
}
