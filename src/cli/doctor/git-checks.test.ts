import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { cleanUp, createTestFolder, qm } from "../testing.ts";
import type { DoctorCheck } from "./environment-checks.ts";

afterEach(cleanUp);

const env = { PATH: process.env.PATH ?? "" };
const LITERAL = {
  servers: { hub: { command: "hub", env: { HUB_TOKEN: "ghp_0123456789abcdefghij0123456789abcdef" } } },
};

async function createRepository(config: object = {}): Promise<string> {
  const cwd = await createTestFolder({ "quartermaster.yaml": JSON.stringify(config) });
  execFileSync("git", ["init", "-q"], { cwd });
  await mkdir(join(cwd, ".quartermaster"));
  await writeFile(join(cwd, ".quartermaster/secrets.json"), "{}");
  return cwd;
}

async function checkGit(cwd: string, environment: Record<string, string> = env) {
  const { code, out } = await qm(cwd, ["doctor", "--json"], { env: environment });
  const { checks } = JSON.parse(out) as { checks: readonly DoctorCheck[] };
  return { code, out, found: checks.filter(({ about }) => about === "git") };
}

test("warns of secrets that git would commit, until they are ignored", async () => {
  const cwd = await createRepository();

  const before = await checkGit(cwd);
  await appendFile(join(cwd, ".gitignore"), ".quartermaster/\n");

  expect(before.found).toEqual([
    {
      about: "git",
      status: "warn",
      message: "git would commit .quartermaster/secrets.json",
      todo: "Add it to .gitignore.",
    },
  ]);
  expect((await checkGit(cwd)).found).toEqual([]);
});

test("fails for secrets that git has, even if they are ignored since", async () => {
  const cwd = await createRepository();
  execFileSync("git", ["add", ".quartermaster"], { cwd });
  await writeFile(join(cwd, ".gitignore"), ".quartermaster/\n");

  expect(await checkGit(cwd)).toMatchObject({
    code: 1,
    found: [
      {
        status: "fail",
        message: "git has .quartermaster/secrets.json",
        todo: expect.stringContaining("git rm --cached .quartermaster/secrets.json"),
      },
    ],
  });
});

test("warns of a literal secret in the configuration, without showing it", async () => {
  const cwd = await createRepository(LITERAL);
  await writeFile(join(cwd, ".gitignore"), ".quartermaster/\n");

  const { found, out } = await checkGit(cwd);

  expect(found).toMatchObject([
    {
      status: "warn",
      message: "git would commit the secrets in servers.hub.env.HUB_TOKEN",
      todo: expect.stringContaining("qm secrets set"),
    },
  ]);
  expect(out).not.toContain("ghp_");
});

test("is quiet outside of a work tree and without git", async () => {
  const outside = await createTestFolder({ "quartermaster.yaml": JSON.stringify(LITERAL) });
  const cwd = await createRepository(LITERAL);

  expect((await checkGit(outside)).found).toEqual([]);
  expect((await checkGit(cwd, { PATH: "/nowhere" })).found).toEqual([]);
});

test("runs no program that the configuration of a repository names", async () => {
  const cwd = await createRepository();
  const marker = join(cwd, "ran.txt");
  const git = (...args: readonly string[]) => execFileSync("git", [...args], { cwd });
  // Reading the ignore file, whose content is missing, would fetch it by a program of the remote.
  git("update-index", "--add", "--cacheinfo", `100644,${"1".repeat(40)},.gitignore`);
  git("update-index", "--skip-worktree", ".gitignore");
  const settings = ["extensions.partialClone=origin", "remote.origin.promisor=true", "remote.origin.url=."];
  for (const setting of [...settings, `remote.origin.uploadpack=echo ran > ${marker}; false`]) {
    const at = setting.indexOf("=");
    git("config", setting.slice(0, at), setting.slice(at + 1));
  }
  git("config", "core.repositoryformatversion", "1");

  await checkGit(cwd);

  expect(existsSync(marker)).toBe(false);
});
