import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { cp, mkdir, mkdtemp, rm } from "node:fs/promises";
import { builtinModules } from "node:module";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import packageInfo from "../package.json" with { type: "json" };
import { plainEnvironment } from "../src/cli/testing.ts";
import type { createPageProcesses } from "../src/providers/web/page-process.ts";
import { createPdf } from "../src/providers/web/testing.ts";

const root = join(import.meta.dirname, "..");
const cache = join(root, "node_modules/.cache");
const BLOCK = 4096;
const MB = 2 ** 20;
let made: string;
let dist: string;

beforeAll(async () => {
  await mkdir(cache, { recursive: true });
  made = await mkdtemp(join(cache, "qm-package-"));
  dist = join(made, "dist");
  for (const name of ["package.json", "README.md", "LICENSE", ...packageInfo.files.filter((each) => each !== "dist")])
    await cp(join(root, name), join(made, name), { recursive: true });
  const build = packageInfo.scripts.build.split(" && ");
  expect(build).toHaveLength(3);
  run("--import", "tsx", "scripts/bundle-library.ts", dist);
  run("node_modules/typescript/bin/tsc", "-p", "tsconfig.build.json", "--outDir", dist);
  run("--import", "tsx", "scripts/bundle-command.ts", join(dist, "bin"));
});

afterAll(() => rm(made, { recursive: true, force: true }));

describe("the published package", () => {
  test("contains no source maps and no tests", () => {
    const files = listPacked();

    expect(files).toEqual(expect.arrayContaining(["dist/index.js", "dist/index.d.ts", "dist/bin/qm.js"]));
    expect(files.filter((path) => /\.map$|\.test\b|(?:^|\/)testing\.|^(?:src|test)\//.test(path))).toEqual([]);
    const texts = files.filter((path) => path.endsWith("js")).map((path) => readFileSync(join(made, path), "utf8"));
    expect(texts.filter((text) => /^\/\/# sourceMappingURL=/m.test(text))).toEqual([]);
  });

  test("takes less than 75 MB with its dependencies", () => {
    const own = listPacked().map((path) => join(made, path));
    const installed = listInstalled().flatMap((folder) => listFiles(join(root, folder)));
    const bytes = [...own, ...installed].reduce((sum, path) => sum + Math.ceil(statSync(path).size / BLOCK) * BLOCK, 0);

    expect(bytes / MB).toBeGreaterThan(30);
    expect(bytes / MB).toBeLessThan(75);
  });

  test("imports only what is installed with it, in its code and its public types", () => {
    const listed = [...Object.keys(packageInfo.dependencies), ...Object.keys(packageInfo.peerDependencies)];
    const isInstalled = (id: string) =>
      /^(?:node:|\.)/.test(id) ||
      builtinModules.includes(id) ||
      listed.some((name) => id === name || id.startsWith(`${name}/`));
    const code = listFiles(dist).filter((path) => path.endsWith(".js") && !path.startsWith(join(dist, "bin")));
    const missing = [...code, ...listPublicTypes()].flatMap((path) =>
      listImports(path)
        .filter((id) => !isInstalled(id))
        .map((id) => `${path}: ${id}`),
    );

    expect(missing).toEqual([]);
  });

  test("exports what the source exports", async () => {
    const entries = Object.values(packageInfo.exports).filter((path) => path.endsWith(".js"));
    const named = await Promise.all(
      entries.map(async (path) => {
        const source = path.replace(/^\.\/dist\/(.*)\.js$/, "../src/$1.ts");
        return [path, Object.keys(await import(source)), await listNames(join(made, path))] as const;
      }),
    );

    expect(named.length).toBeGreaterThan(8);
    for (const [path, expected, found] of named) expect([path, found]).toEqual([path, expected.sort()]);
  });

  test("converts pages with the packages that it contains", async () => {
    const path = join(dist, "providers/web/page-process.js");
    const { createPageProcesses: create } = (await import(pathToFileURL(path).href)) as {
      createPageProcesses: typeof createPageProcesses;
    };
    const processes = create(process.execPath);
    const signal = new AbortController().signal;
    const place = { url: "https://example.com/", maxLength: 1000 };
    const html = "<title>Tea</title><main><h1>Tea</h1><p>Hot <b>water</b> and leaves.</p></main>";
    const rules = { url: "https://example.com/a", robots: "User-agent: *\nDisallow: /a", userAgent: "qm" };

    expect(await processes.convertPage({ ...place, kind: "html", page: html }, signal)).toMatchObject({
      title: "Tea",
      content: expect.stringContaining("Hot **water** and leaves."),
    });
    const pdf = createPdf(["First page"]);
    expect(await processes.convertPage({ ...place, kind: "pdf", page: pdf }, signal)).toMatchObject({
      content: "## Page 1\n\nFirst page",
    });
    expect(await processes.isAllowedByRobots(rules, signal)).toBe(false);
  });
});

function run(...args: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: root,
    env: plainEnvironment(),
    encoding: "utf8",
  });
  expect({ args, status, stdout, stderr }).toEqual({ args, status: 0, stdout: "", stderr: "" });
}

function listPacked(): readonly string[] {
  const args = ["pack", "--dry-run", "--json", "--ignore-scripts", "--loglevel", "error"];
  const { stdout } = spawnSync("npm", args, { cwd: made, encoding: "utf8" });
  const [packed] = JSON.parse(stdout) as readonly [{ readonly files: readonly { readonly path: string }[] }];
  return packed.files.map(({ path }) => path);
}

/** The folders of the dependencies and of what they need, from the lockfile. */
function listInstalled(): readonly string[] {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    readonly packages: Readonly<Record<string, { dev?: true; devOptional?: true; optional?: true; peer?: true }>>;
  };
  return Object.entries(packages)
    .filter(([path, { dev, devOptional, optional, peer }]) => path !== "" && !(dev || devOptional || optional || peer))
    .map(([path]) => path);
}

const listFiles = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

const listImports = (path: string): readonly string[] =>
  [...readFileSync(path, "utf8").matchAll(/(?:[}\w] from |^import |\bimport\()"([^"\n]+)"/gm)].map(([, id = ""]) => id);

/** The declarations that a program can reach from an entry. */
function listPublicTypes(): readonly string[] {
  const entries = Object.values(packageInfo.exports).filter((path) => path.endsWith(".js"));
  const found = new Set(entries.map((path) => join(made, path.replace(/\.js$/, ".d.ts"))));
  for (const path of found)
    for (const id of listImports(path))
      if (id.startsWith(".")) found.add(resolve(dirname(path), id.replace(/\.(?:ts|js)$/, ".d.ts")));
  return [...found];
}

/** In a process of its own: two copies of the program do not share one. */
async function listNames(path: string): Promise<readonly string[]> {
  const script = `console.log(JSON.stringify(Object.keys(await import(${JSON.stringify(pathToFileURL(path).href)}))))`;
  const { stdout } = spawnSync(process.execPath, ["--input-type=module", "--eval", script], { encoding: "utf8" });
  return JSON.parse(stdout);
}
