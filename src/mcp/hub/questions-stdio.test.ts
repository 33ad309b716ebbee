import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { until } from "./testing/testing.ts";
import { caller, local, testHub } from "./testing.ts";

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "hub-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const textOf = (result: object) => (result as { content: { text: string }[] }).content[0]?.text;

describe("questions on standard streams", () => {
  const FORM = {
    method: "elicitation/create",
    params: { message: "Sure?", requestedSchema: { type: "object", properties: {} } },
  };

  test("go to whoever made the call", async () => {
    const { call } = await testHub(local("asking.mjs"));
    const dialogue = caller(() => ({ action: "accept", content: { yes: true } }));

    const answer = textOf(await call("ask", { question: FORM }, { dialogue }));

    expect(JSON.parse(answer ?? "")).toEqual({ action: "accept", content: { yes: true } });
    expect(dialogue.asked).toEqual([{ question: FORM }]);
  });

  test("never go to another session while two are being served", async () => {
    const journal = join(await temporaryFolder(), "journal");
    const { call } = await testHub(local("asking.mjs", {}, journal));
    const [one, two] = [caller(), caller()];
    const held = call("hold", {}, { session: "two", dialogue: two });
    await until(async () => (await readFile(journal, "utf8")).includes('"hold"'));

    const answer = textOf(await call("ask", { question: FORM }, { session: "one", dialogue: one }));
    await call("free");
    await held;

    expect(JSON.parse(answer ?? "")).toEqual({ action: "decline" });
    expect([...one.asked, ...two.asked]).toEqual([]);
  });

  test("get an error where the caller does not answer, and say nothing of ours", async () => {
    const { call } = await testHub(local("asking.mjs"));
    const dialogue = caller(() => {
      throw new Error("secret internals");
    });

    const answer = textOf(await call("ask", { question: FORM }, { dialogue }));

    expect(JSON.parse(answer ?? "")).toEqual({
      error: { code: -32603, message: "the question could not be answered" },
    });
  });

  test("lines to show go to the only session there is, and to nobody while there are two", async () => {
    const journal = join(await temporaryFolder(), "journal");
    const { call } = await testHub(local("asking.mjs", {}, journal));
    const [one, two] = [caller(), caller()];
    const line = { level: "warning", logger: "db", data: { slow: true } };

    await call("log", { line }, { session: "one", dialogue: one });
    const held = call("hold", {}, { session: "two", dialogue: two });
    await until(async () => (await readFile(journal, "utf8")).includes('"hold"'));
    await call("log", { line }, { session: "one", dialogue: one });
    await call("free");
    await held;

    expect(one.lines).toEqual([line]);
    expect(two.lines).toEqual([]);
  });
});
