import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { waitUntil } from "../../../test/fixtures/mcp-servers/stdio-fixtures.ts";
import { createTestCaller, createTestHub, localServer } from "../../../test/support/mcp-hub.ts";

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "hub-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const textOf = (result: object) => (result as { content: { text: string }[] }).content[0]?.text;

describe("questions over stdio", () => {
  const FORM = {
    method: "elicitation/create",
    params: { message: "Sure?", requestedSchema: { type: "object", properties: {} } },
  };

  test("go to the caller", async () => {
    const { call } = await createTestHub(localServer("asking.mjs"));
    const dialogue = createTestCaller(() => ({ action: "accept", content: { yes: true } }));

    const answer = textOf(await call("ask", { question: FORM }, { dialogue }));

    expect(JSON.parse(answer ?? "")).toEqual({ action: "accept", content: { yes: true } });
    expect(dialogue.asked).toEqual([{ question: FORM }]);
  });

  test("never go to another owner while calls of two are in progress", async () => {
    const journal = join(await temporaryFolder(), "journal");
    const { call } = await createTestHub(localServer("asking.mjs", {}, journal));
    const [one, two] = [createTestCaller(), createTestCaller()];
    const held = call("hold", {}, { dialogue: two });
    await waitUntil(async () => (await readFile(journal, "utf8")).includes('"hold"'));

    const answer = textOf(await call("ask", { question: FORM }, { dialogue: one }));
    await call("free");
    await held;

    expect(JSON.parse(answer ?? "")).toEqual({ action: "decline" });
    expect([...one.asked, ...two.asked]).toEqual([]);
  });

  test("may go to another call of the same owner", async () => {
    const journal = join(await temporaryFolder(), "journal");
    const { call } = await createTestHub(localServer("asking.mjs", {}, journal));
    const [one, two] = [1, 2].map(() => createTestCaller(undefined, undefined, "ann"));
    const later = call("later", { question: FORM }, { dialogue: one });
    await waitUntil(async () => (await readFile(journal, "utf8")).includes('"later"'));

    await call("now", {}, { dialogue: two });

    expect(JSON.parse(textOf(await later) ?? "")).toMatchObject({ action: "accept" });
    expect([one?.asked, two?.asked]).toEqual([[], [{ question: FORM }]]);
  });

  test("of an abandoned call go to no caller until the server has answered it", async () => {
    const journal = join(await temporaryFolder(), "journal");
    const { call } = await createTestHub(localServer("asking.mjs", {}, journal));
    const written = async () => await readFile(journal, "utf8");
    const [gone, other] = [createTestCaller(), createTestCaller()];
    const giveUp = new AbortController();
    const abandoned = call("later", { question: FORM }, { dialogue: gone, signal: giveUp.signal });
    await waitUntil(async () => (await written()).includes('"later"'));
    giveUp.abort();
    await expect(abandoned).rejects.toMatchObject({ code: "cancelled" });

    await call("now", {}, { dialogue: other });
    await waitUntil(async () => (await written()).includes('"decline"'));
    const answered = textOf(await call("ask", { question: FORM }, { dialogue: other }));

    expect(gone.asked).toEqual([]);
    expect(other.asked).toEqual([{ question: FORM }]);
    expect(JSON.parse(answered ?? "")).toMatchObject({ action: "accept" });
  });

  test("get an error without internals when the caller does not answer", async () => {
    const { call } = await createTestHub(localServer("asking.mjs"));
    const dialogue = createTestCaller(() => {
      throw new Error("secret internals");
    });

    const answer = textOf(await call("ask", { question: FORM }, { dialogue }));

    expect(JSON.parse(answer ?? "")).toEqual({
      error: { code: -32603, message: "the question could not be answered" },
    });
  });

  test("log lines go to the only session, and to none while there are two", async () => {
    const journal = join(await temporaryFolder(), "journal");
    const { call } = await createTestHub(localServer("asking.mjs", {}, journal));
    const [one, two] = [createTestCaller(), createTestCaller()];
    const line = { level: "warning", logger: "db", data: { slow: true } };

    await call("log", { line }, { dialogue: one });
    const held = call("hold", {}, { dialogue: two });
    await waitUntil(async () => (await readFile(journal, "utf8")).includes('"hold"'));
    await call("log", { line }, { dialogue: one });
    await call("free");
    await held;

    expect(one.lines).toEqual([line]);
    expect(two.lines).toEqual([]);
  });
});
