import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { createPageProcesses, type UnreadPage } from "./page-process.ts";

const { convertPage, isAllowedByRobots } = createPageProcesses(process.execPath);
const { signal } = new AbortController();

const pdf = (content: Buffer): UnreadPage => ({
  kind: "pdf",
  url: "https://site.example/a.pdf",
  maxLength: 1_000_000,
  page: Buffer.concat([
    Buffer.from(`%PDF-1.5
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
4 0 obj<</Filter/FlateDecode/Length ${content.length}>>stream\n`),
    content,
    Buffer.from("\nendstream endobj\ntrailer<</Root 1 0 R>>"),
  ]),
});

test("survives a PDF of 30 KB with 19,000,000 values", async () => {
  // V8 ends the whole process when an array grows past the heap. A thread with a limit does not prevent that.
  const content = deflateSync(`BT /F1 9 Tf [${"[]".repeat(3_000_000)}] [${"1 ".repeat(16_000_000)}] TJ ET`);

  await expect(convertPage(pdf(content), signal)).rejects.toMatchObject({ code: "too_large" });
});

test("refuses what a robots.txt does not decide within its work", async () => {
  const url = `https://site.example/${"a".repeat(4_000)}`;
  const ask = (robots: string) => isAllowedByRobots({ url, robots, userAgent: "Quartermaster/1" }, signal);
  // Each character of a rule is compared at each place of the path.
  const rule = `Disallow: /${"*a".repeat(100)}b\n`;
  // robots-parser adds each rule for each name: 10,000 times 25,000.
  const manyNames = `${"User-agent:a\n".repeat(10_000)}${"Allow:/a\n".repeat(25_000)}`;

  expect(await ask(`User-agent: *\n${rule}`)).toBe(true);
  expect(await Promise.all([ask(`User-agent: *\n${rule.repeat(2_500)}`), ask(manyNames)])).toEqual([false, false]);
});

test.each([
  ["tags without an end", "<svg>".repeat(100_000)],
  ["comments without an end", "<!--".repeat(200_000)],
  ["elements in elements", "<li><p>".repeat(40_000)],
  ["rows in rows", "<table><tr><td>".repeat(20_000)],
  ["links in links", "<a href=x>".repeat(50_000)],
])("reads the text of a page with %s", async (_what, tags) => {
  const page = {
    kind: "html",
    url: "https://site.example/",
    page: `${tags} --><p>the text`,
    maxLength: 1_000,
  } as const;

  expect((await convertPage(page, signal)).content).toContain("the text");
});

test("rejects when Node.js cannot be started", async () => {
  const page = { kind: "html", url: "https://site.example/", page: "<p>a", maxLength: 10 } as const;

  await expect(createPageProcesses("/no/such/node").convertPage(page, signal)).rejects.toThrow("ENOENT");
});

test("gives the process no variables, and ends it when the caller cancels", async () => {
  vi.stubEnv("API_TOKEN", "hush");
  onTestFinished(() => void vi.unstubAllEnvs());
  const folder = await mkdtemp(join(tmpdir(), "qm-page-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  // It never answers.
  const program = join(folder, "node");
  await writeFile(program, `#!/bin/sh\nset > "${folder}/variables"\necho $$ > "${folder}/pid"\nexec sleep 300\n`, {
    mode: 0o755,
  });
  const cancelling = new AbortController();
  const page = { kind: "html", url: "https://site.example/", page: "<p>a", maxLength: 10 } as const;

  const failed = createPageProcesses(program).convertPage(page, cancelling.signal);
  const readPid = () => readFile(join(folder, "pid"), "utf8").catch(() => "");
  await expect.poll(readPid).toMatch(/\d\n/);
  cancelling.abort(new Error("cancelled by the caller"));

  await expect(failed).rejects.toThrow("cancelled by the caller");
  const pid = Number(await readPid());
  const isAlive = () => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  await expect.poll(isAlive).toBe(false);
  expect(await readFile(join(folder, "variables"), "utf8")).not.toContain("hush");
});
