import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { formatCaseLocation, readDataset } from "./dataset.ts";

const made: string[] = [];
afterEach(async () => {
  for (const folder of made.splice(0)) await rm(folder, { recursive: true });
});

async function folderWith(files: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "qm-evals-"));
  made.push(folder);
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

const caseOf = (id: string, more: object = {}) =>
  JSON.stringify({ id, calls: [], expected: { state: "complete" }, ...more });

test("reads a case from each .json file and each line of a .jsonl file, sorted by file name", async () => {
  const folder = await folderWith({
    "b.json": `\uFEFF${caseOf("b")}`,
    "a.jsonl": `${caseOf("a1")}\r\n\n${caseOf("a2")}\n`,
    "README.md": "no case",
  });

  const { cases, problems } = await readDataset(folder);

  expect(cases.map(({ case: { id }, line }) => [id, line])).toEqual([
    ["a1", 1],
    ["a2", 3],
    ["b", undefined],
  ]);
  expect(problems).toEqual([]);
  expect((await readDataset(join(folder, "a.jsonl"))).cases).toHaveLength(2);
});

test("reports an invalid case with its location, and reads the others", async () => {
  const folder = await folderWith({
    "a.json": "{ no json",
    "b.json": caseOf("b", { expected: { notcalled: ["x"] } }),
    "c.jsonl": `${caseOf("c")}\n[]\n${caseOf("d", { calls: [{ name: "x", outcome: { status: "failed", error: { code: "odd", error: "" } } }] })}\n${caseOf("c")}`,
    "e.json": caseOf("e"),
  });
  await mkdir(join(folder, "f.json"));

  const { cases, problems } = await readDataset(folder);

  expect(cases.map(({ case: { id } }) => id)).toEqual(["c", "e"]);
  expect(
    problems.map((problem) => `${formatCaseLocation(problem).slice(folder.length + 1)} ${problem.message}`),
  ).toEqual([
    expect.stringMatching(/^a\.json is not JSON/),
    expect.stringMatching(/^b\.json expected: .*notcalled/),
    expect.stringMatching(/^c\.jsonl:2 it: /),
    expect.stringMatching(/^c\.jsonl:3 calls\.0\.outcome\.error\.code: expected an error code/),
    expect.stringMatching(/^c\.jsonl:4 has the id "c", which c\.jsonl:1 already has/),
    expect.stringMatching(/^f\.json cannot be read/),
  ]);
});

test("throws for a missing or empty dataset", async () => {
  await expect(readDataset(await folderWith({ "notes.txt": "" }))).rejects.toMatchObject({
    code: "invalid_arguments",
    hint: expect.stringContaining("qm eval record"),
  });
  await expect(readDataset(join(tmpdir(), "qm-no-such-folder"))).rejects.toMatchObject({ code: "not_found" });
});
