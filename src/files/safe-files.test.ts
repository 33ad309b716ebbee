import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createFileOnce, createPrivateFolder } from "./safe-files.ts";

test("keeps git from seeing what is in the state folder", async () => {
  const folder = temporaryFolder();
  execFileSync("git", ["init", "--quiet", folder]);

  await createFileOnce(join(folder, ".quartermaster/token"), "secret");
  writeFileSync(join(folder, "readme"), "");

  const status = execFileSync("git", ["-C", folder, "status", "--porcelain", "-uall"], { encoding: "utf8" });
  expect(status).toBe("?? readme\n");
});

test("adds a .gitignore to an existing state folder", () => {
  const state = join(temporaryFolder(), ".quartermaster");
  mkdirSync(state);

  createPrivateFolder(state);

  expect(readFileSync(join(state, ".gitignore"), "utf8")).toBe("*\n");
});

test("leaves the user's own .gitignore alone", () => {
  const state = join(temporaryFolder(), ".quartermaster");
  mkdirSync(state);
  writeFileSync(join(state, ".gitignore"), "!keep-me\n");

  createPrivateFolder(state);

  expect(readFileSync(join(state, ".gitignore"), "utf8")).toBe("!keep-me\n");
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-files-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}
