import { expect, test } from "vitest";
import { z } from "zod";
import type { ModelMessage, QuartermasterOptions } from "../src/index.ts";
import { openWorkplace } from "./fixtures/actor-workplace.ts";
import type { ActorAnswer } from "./fixtures/scripted-actor.ts";

const caller = { session: "s" };
const LONG = 30_000;

/** An actor whose tool answers with long texts that are shown whole. */
async function openLibrary(options: Partial<QuartermasterOptions> = {}) {
  const turn: readonly ActorAnswer[] = [[["tool__page", { at: 1 }]], "Read."];
  const names = Array.from({ length: 8 }, (_, at) => [`read ${at}`, turn] as const);
  const library = await openWorkplace(Object.fromEntries(names), { valueLimit: 2 * LONG, ...options });
  library.qm.register({
    name: "page",
    description: "Reads a page.",
    inputSchema: z.object({ at: z.number() }),
    scope: "generalist",
    effect: "read",
    handler: ({ at }) => `${at} ${"page ".repeat(LONG / 5)}`,
  });
  return library;
}

const readResults = (messages: readonly ModelMessage[] = []) =>
  messages.flatMap((message) => (message.role === "tool" ? message.results.map(({ text }) => text) : []));

/** Every call has its result, right after it. */
function expectPairs(messages: readonly ModelMessage[] = []): void {
  for (const [at, message] of messages.entries()) {
    const next = messages[at + 1];
    const ids = message.role === "assistant" ? message.toolCalls.map(({ id }) => id) : [];
    if (ids.length > 0) expect(next?.role === "tool" && next.results.map(({ id }) => id)).toEqual(ids);
  }
}

test("older tool results become notes, and people still see them whole", async () => {
  const { qm, model } = await openLibrary({ infospace: { enabled: true } });
  for (let at = 0; at < 6; at++) await qm.callActor("clerk", `read ${at}`, { caller });

  const last = model.requests.at(-2)?.messages;
  const results = readResults(last);
  expectPairs(last);
  expect(results).toHaveLength(5);
  expect(results.slice(0, 3)).toEqual(Array(3).fill(expect.stringMatching(/left out\. It is kept as note__\d+\./)));
  expect(results.slice(3).map((text) => text.length > LONG)).toEqual([true, true]);
  const [handle = ""] = /note__\d+/.exec(results[0] ?? "") ?? [];
  expect(String(await qm.notes.read(handle, {}, { actor: "clerk", ...caller }))).toMatch(/^1 page page/);
  const whole = (await qm.sessions.get("s")).history.flatMap(({ message }) => readResults([message]));
  expect(whole.every((text) => text.length > LONG)).toBe(true);
  expect((await qm.ledger.read({ type: "session.compacted" })).map(({ data }) => data)).toMatchObject([
    { results: 3, turns: 0, tokensBefore: expect.any(Number) },
  ]);

  // Once more: what was shortened stays as it is.
  await qm.callActor("clerk", "read 6", { caller });
  expect(readResults(model.requests.at(-2)?.messages)[0]).toBe(results[0]);
});

test("an older result that became a note is for the actor alone, because it may have data from other actions", async () => {
  const actors = [
    { name: "clerk", tools: ["*"], surface: { kind: "flat" as const } },
    { name: "guest", tools: ["tool__page", "note__*", "infospace__*"] },
  ];
  const { qm, model } = await openLibrary({ infospace: { enabled: true }, policy: { actors } });
  for (let at = 0; at < 6; at++) await qm.callActor("clerk", `read ${at}`, { caller });
  const [handle = ""] = /note__\d+/.exec(readResults(model.requests.at(-2)?.messages)[0] ?? "") ?? [];

  const read = (actor: string) => qm.notes.read(handle, {}, { actor, ...caller });

  expect(String(await read("clerk"))).toMatch(/^1 page page/);
  await expect(read("guest")).rejects.toMatchObject({ code: "not_found" });
});

test("without an infospace, the model is told to make the call again", async () => {
  const { qm, model } = await openLibrary();
  for (let at = 0; at < 6; at++) await qm.callActor("clerk", `read ${at}`, { caller });

  expect(readResults(model.requests.at(-2)?.messages)[0]).toMatch(/left out\. Make the call again/);
});

const chapter = (at: number) => `chapter ${at} ${"word ".repeat(LONG / 5)}`;
const chapters = Object.fromEntries(Array.from({ length: 9 }, (_, at) => [chapter(at), ["Noted."]] as const));

test("the oldest turns become a summary, which the caller pays", async () => {
  const { qm, model } = await openWorkplace(chapters);
  const generate = model.generate.bind(model);
  const asked: string[] = [];
  Object.assign(model, {
    generate: async (...args: Parameters<typeof generate>) => {
      const [first] = args[0].messages;
      if (first?.role !== "user" || !first.text.startsWith("Summarise")) return generate(...args);
      asked.push(first.text);
      return {
        message: { role: "assistant", text: `Summary ${asked.length}.`, toolCalls: [] },
        finish: "stop",
        inputTokens: 100,
        outputTokens: 5,
      };
    },
  });
  for (let at = 0; at < 5; at++) await qm.callActor("clerk", chapter(at), { caller });
  const envelope = await qm.callActor("clerk", chapter(5), { caller });

  expect(envelope.usage).toEqual({ inputTokens: 110, outputTokens: 7 });
  expect(asked).toHaveLength(1);
  expect(asked[0]).toMatch(/User: chapter 0 .*User: chapter 2 /s);
  expect(asked[0]).not.toContain("chapter 3");
  const texts = model.requests.at(-1)?.messages.map((message) => ("text" in message ? message.text.slice(0, 60) : ""));
  expect(texts?.[0]).toBe("Summary of the earlier conversation:\nSummary 1.");
  expect(texts?.slice(1).map((text) => text.slice(0, 9))).toEqual([
    ...["chapter 3", "Noted.", "chapter 4", "Noted.", "chapter 5"],
  ]);
  expect((await qm.ledger.read({ type: "session.compacted" })).map(({ data }) => data)).toMatchObject([{ turns: 3 }]);
  expect((await qm.ledger.read({ type: "model.called", callId: envelope.turnId })).length).toBe(2);

  // The next summary contains the first one.
  for (let at = 6; at < 9; at++) await qm.callActor("clerk", chapter(at), { caller });
  expect(asked).toHaveLength(2);
  expect(asked[1]).toMatch(/Summary 1\..*User: chapter 3 /s);
  expect((await qm.sessions.get("s")).messages).toBe(18);
});

test("if the summary fails, the model is told how much was left out", async () => {
  const { qm, model } = await openWorkplace(chapters);
  const generate = model.generate.bind(model);
  Object.assign(model, {
    generate: async (...args: Parameters<typeof generate>) => {
      if (args[0].system?.startsWith("You summarise")) throw new Error("too long");
      return generate(...args);
    },
  });
  for (let at = 0; at < 6; at++)
    expect(await qm.callActor("clerk", chapter(at), { caller })).toMatchObject({ turnState: "complete" });

  expect(model.requests.at(-1)?.messages[0]).toMatchObject({
    text: expect.stringMatching(/3 earlier turns with 6 messages were left out/),
  });
});

test("the last turn stays whole, however long it is", async () => {
  const book = `book ${"word ".repeat(40_000)}`;
  const { qm, model } = await openWorkplace({ first: ["Noted."], [book]: ["Noted."], next: ["Noted."] });
  for (const message of ["first", book, "next"]) await qm.callActor("clerk", message, { caller });

  const texts = model.requests.at(-1)?.messages.map((message) => ("text" in message ? message.text.slice(0, 40) : ""));
  expect(texts?.map((text) => text.split(" ", 1)[0])).toEqual(["Summary", "book", "Noted.", "next"]);
});
