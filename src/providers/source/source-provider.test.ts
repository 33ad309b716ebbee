import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { findPackageFolder } from "../../app/system-runtime.ts";
import { createQuartermaster } from "../../index.ts";
import { sourceProvider } from "./source-provider.ts";

async function open(folder: string) {
  const qm = await createQuartermaster({ providers: [sourceProvider({ folder })] });
  onTestFinished(() => qm.close());
  return qm;
}

async function createPackage(files: readonly string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "qm-source-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const file of files) {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), `text of ${file}\n`);
  }
  return folder;
}

const installed = ["README.md", "LICENSE", "docs/config.md", "dist/index.js", "dist/index.js.map", "package.json"];
const beside = ["node_modules/a/index.js", ".git/config", ".quartermaster/store.db", "test/a.test.ts", ".env"];

test("reads, lists and searches this package, and changes nothing", async () => {
  const qm = await open(findPackageFolder());

  const listed = qm.list({ limit: 50 }).items.map(({ qualified_name }) => qualified_name);
  expect(listed).toEqual(["qm_source__glob", "qm_source__grep", "qm_source__list", "qm_source__read"]);
  const actions = await sourceProvider({ folder: findPackageFolder() }).list();
  expect(actions.map(({ effect }) => effect)).toEqual(["read", "read", "read", "read"]);
  expect(await qm.invoke("qm_source__read", { path: "LICENSE" })).toMatchObject({ status: "done" });
  expect(await qm.invoke("qm_source__glob", { pattern: "src/index.*" })).toMatchObject({
    data: { paths: ["src/index.ts"] },
  });
  const found = await qm.invoke("qm_source__grep", { pattern: "^# Architecture", path: "docs" });
  expect(found).toMatchObject({ data: { matches: [{ path: "docs/architecture.md", line: 0 }] } });
  const top = await qm.invoke("qm_source__list", {});
  const names = ["CHANGELOG.md", "LICENSE", "README.md", "docs", "examples", "skills", "src"];
  expect(top).toMatchObject({ data: { entries: names.map((path) => ({ path })) } });
});

test("of an installed package, dist takes the place of src and has no maps", async () => {
  const qm = await open(await createPackage([...installed, ...beside]));

  expect(await qm.invoke("qm_source__glob", { pattern: "**" })).toMatchObject({
    data: { paths: ["LICENSE", "README.md", "dist/index.js", "docs/config.md"], truncated: false },
  });
});

test("says what can be reached instead of a file that is not installed", async () => {
  const qm = await open(await createPackage(installed));

  expect(await qm.invoke("qm_source__read", { path: "src/index.ts" })).toMatchObject({
    error: {
      code: "path_refused",
      error: '"src/index.ts" cannot be reached here',
      hint: "Only README.md, CHANGELOG.md, LICENSE, docs, skills, examples, dist can.",
    },
  });
});

test.each([...beside, "package.json", "dist/index.js.map", "dist/INDEX.JS.MAP", "docs/link/a/index.js", "docs/up"])(
  "does not reach %s",
  async (path) => {
    const folder = await createPackage([...installed, ...beside]);
    await symlink("../node_modules", join(folder, "docs/link"));
    await symlink("../package.json", join(folder, "docs/up"));
    const qm = await open(folder);

    for (const [action, args] of [
      ["read", { path }],
      ["grep", { pattern: "text", path }],
      ["list", { path: dirname(path) === "." ? path : dirname(path) }],
    ] as const) {
      const outcome = await qm.invoke(`qm_source__${action}`, args);
      const text = JSON.stringify(outcome);
      expect(text).not.toContain("text of");
      if (action !== "list") expect(outcome).toMatchObject({ status: "failed", error: { code: "path_refused" } });
    }
    const listed = await qm.invoke("qm_source__grep", { pattern: "text of" });
    expect(JSON.stringify(listed)).not.toMatch(/node_modules|package\.json|\.map/);
  },
);
