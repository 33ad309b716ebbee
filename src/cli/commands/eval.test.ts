import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { cleanUp, createTestFolder, qm } from "../testing.ts";

afterEach(cleanUp);

const AGENT = `
export default async ({ messages }, { surface }) => {
  const { ok, text } = await surface.call("invoke_action", { action_name: "file__read", args: { path: messages } });
  return { parts: [{ type: "text", ok, text }], turnState: "complete", prompt: { text: "Be brief." } };
};`;

const LOUD = `
export default async () => {
  console.log("noise %d", 7);
  return { parts: [], turnState: "complete" };
};`;

/** A folder with a recorded session and a case of it. */
async function recorded(): Promise<string> {
  const cwd = await createTestFolder({
    "a.txt": "hello\n",
    "agent.mjs": AGENT,
    "prompt.md": "Be brief.",
    "messages.json": '"a.txt"',
    "no-agent.mjs": "export const nothing = 1;",
    "stricter.yaml": "providers: { file: { read_only: false } }\npolicy: { denied: [file__write] }\n",
    "quartermaster.yaml": "providers: { file: { root: ., read_only: false } }\n",
  });
  await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}', "--session", "chat"]);
  await qm(cwd, ["invoke", "file__write", '{"path":"b.txt","content":"x"}', "--session", "chat"]);
  const made = await qm(cwd, [
    "eval",
    "record",
    "chat",
    "--to",
    "case.json",
    "--id",
    "first",
    "--messages",
    "messages.json",
    "--prompt",
    "prompt.md",
  ]);
  expect(made).toMatchObject({
    code: 0,
    err: "",
    out: expect.stringContaining("Wrote 2 calls of chat to case.json, as case first."),
  });
  return cwd;
}

async function expecting(cwd: string, expected: object): Promise<void> {
  const made = JSON.parse(await readFile(join(cwd, "case.json"), "utf8"));
  await writeFile(join(cwd, "case.json"), JSON.stringify({ ...made, expected }));
}

describe("qm eval record", () => {
  test("creates a .json file once, and appends to a .jsonl file", async () => {
    const cwd = await recorded();

    const again = await qm(cwd, ["eval", "record", "chat", "--to", "case.json"]);
    const forced = await qm(cwd, ["eval", "record", "chat", "--to", "case.json", "--force"]);
    await qm(cwd, ["eval", "record", "chat", "--to", "cases.jsonl"]);
    await qm(cwd, ["eval", "record", "chat", "--to", "cases.jsonl", "--id", "other"]);
    const lines = (await readFile(join(cwd, "cases.jsonl"), "utf8")).trim().split("\n");

    expect(again).toMatchObject({ code: 2, err: expect.stringContaining("already exists") });
    expect(forced.code).toBe(0);
    expect(lines.map((line) => JSON.parse(line).id)).toEqual(["chat", "other"]);
    expect((await qm(cwd, ["eval", "record", "chta", "--to", "x.json"])).code).toBe(4);
    expect((await qm(cwd, ["eval", "record", "chat", "--to", "x.txt"])).code).toBe(2);
  });

  test("creates the folder, and refuses options of `qm eval`", async () => {
    const cwd = await recorded();

    const made = await qm(cwd, ["eval", "record", "chat", "--to", "evals/new/case.json"]);
    const foreign = await qm(cwd, ["eval", "record", "chat", "--to", "y.json", "--subject", "agent.mjs"]);

    expect(made.code).toBe(0);
    expect(JSON.parse(await readFile(join(cwd, "evals/new/case.json"), "utf8")).id).toBe("chat");
    expect(foreign).toMatchObject({ code: 2, err: expect.stringContaining("has no option --subject") });
    expect((await qm(cwd, ["eval", "record", "--help"])).out).not.toContain("--subject");
  });
});

describe("qm eval", () => {
  test("repeats the recorded calls without running them", async () => {
    const cwd = await recorded();
    await writeFile(join(cwd, "a.txt"), "changed");

    const same = await qm(cwd, ["eval", "case.json"]);
    const stricter = await qm(cwd, ["eval", "case.json", "--policy", "stricter.yaml"]);

    expect(same).toMatchObject({
      code: 0,
      out: expect.stringContaining("1 case: 1 passed, 0 failed. Nothing was run."),
    });
    expect(stricter.code).toBe(1);
    expect(stricter.out).toMatch(
      /first +fail +0\.\d+ +sameOutcomes: file__write was done and is failed \(unknown_action\)/,
    );
    expect(await readFile(join(cwd, "a.txt"), "utf8")).toBe("changed");
  });

  test("checks the expectations and the prompt of a subject", async () => {
    const cwd = await recorded();
    await expecting(cwd, { parts: [{ type: "text", ok: true }], called: ["file__read"], notCalled: ["file__write"] });
    const run = async (...more: string[]) => qm(cwd, ["eval", "case.json", "--subject", "./agent.mjs", ...more]);

    expect((await run()).code).toBe(0);
    expect(JSON.parse((await run("--json")).out).summary).toMatchObject({
      passed: 1,
      promptMismatches: 0,
      realCalls: 0,
    });

    await writeFile(
      join(cwd, "agent.mjs"),
      AGENT.replace("Be brief.", "Be long.").replace("export default", "export const subject ="),
    );
    // A module is read once: another name for the other agent.
    await writeFile(join(cwd, "other.mjs"), await readFile(join(cwd, "agent.mjs"), "utf8"));
    const other = async (...more: string[]) => qm(cwd, ["eval", "case.json", "--subject", "other.mjs", ...more]);
    expect(await other()).toMatchObject({
      code: 0,
      out: expect.stringContaining("1 with a prompt that differs from the recorded one"),
    });
    expect((await other("--prompt-mismatch", "error")).code).toBe(1);
    expect((await other("--prompt-mismatch", "ignore")).out).not.toContain("prompt");
    expect((await other("--prompt-mismatch", "maybe")).code).toBe(2);
  });

  test("reports invalid cases and runs the others", async () => {
    const cwd = await recorded();
    await writeFile(
      join(cwd, "cases.jsonl"),
      `{"id":1}\n${JSON.stringify(JSON.parse(await readFile(join(cwd, "case.json"), "utf8")))}\n`,
    );

    const { code, out, err } = await qm(cwd, ["eval", "cases.jsonl"]);

    expect(code).toBe(1);
    expect(err).toMatch(/cases\.jsonl:1: id: /);
    expect(out).toContain("1 case: 1 passed, 0 failed, 1 problem in the dataset.");
  });

  test("reports a missing dataset, case or subject", async () => {
    const cwd = await recorded();
    await writeFile(join(cwd, "empty.jsonl"), "\n");

    expect((await qm(cwd, ["eval", "none"])).code).toBe(4);
    expect(await qm(cwd, ["eval", "empty.jsonl"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("qm eval record"),
    });
    expect(await qm(cwd, ["eval", "case.json", "--subject", "no-agent.mjs"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("exports no subject"),
    });
    expect((await qm(cwd, ["eval", "case.json", "--subject", "nowhere.mjs"])).code).toBe(2);
  });

  test("shows the progress on a terminal, on stderr", async () => {
    const cwd = await recorded();

    expect((await qm(cwd, ["eval", "case.json"], { columns: 120 })).err).toContain("1 of 1 cases");
  });
});

test("redirects the console of a subject to stderr", async () => {
  const cwd = await recorded();
  await writeFile(join(cwd, "loud.mjs"), `console.info("loading");\n${LOUD}`);
  const said = vi.spyOn(console, "log");

  const { out, err } = await qm(cwd, ["eval", "case.json", "--subject", "loud.mjs", "--json"]);

  expect(JSON.parse(out)).toMatchObject({ summary: { cases: 1 } });
  expect(err).toBe("loading\nnoise 7\n");
  expect(said).not.toHaveBeenCalled();
});

test("accepts the session both as the id and with --session", async () => {
  const cwd = await recorded();

  const { code, out } = await qm(cwd, ["replay", "chat", "--session", "chat"]);

  expect(code).toBe(0);
  expect(out).toContain("2 calls of session chat");
});
