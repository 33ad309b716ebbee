import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { expect, test } from "vitest";
import { z } from "zod";
import { defineAction } from "../catalog/define-action.ts";
import type { Action } from "../core/action.ts";
import { estimateTokens, formatHits } from "./search-results.ts";
import { listActionsTool } from "./universal/browse-actions.ts";
import { searchActionsTool } from "./universal/search-actions.ts";

const action = (entry: string, more: Partial<Parameters<typeof defineAction>[1]> = {}): Action =>
  defineAction("calendar", {
    entry,
    description: "Creates an event in a calendar and invites the people who should come. Answers the event's id.",
    effect: "external",
    input: z.object({ title: z.string(), start: z.string(), attendees: z.array(z.string()).optional() }),
    run: () => null,
    ...more,
  });

const hit = (each: Action, score = 0.5) => ({ action: each, score });

test.each([searchActionsTool, listActionsTool])("the limit of $name has no meaningless maximum", (tool) => {
  const limit = { minimum: 1, description: expect.stringMatching(/at most/i) };

  expect(tool.inputSchema.properties).toMatchObject({ limit });
  expect(tool.inputSchema.properties).not.toHaveProperty("limit.maximum");
});

test("formats a hit as name, signature, score and first sentence", () => {
  const { text, items } = formatHits([hit(action("create_event"), 0.9371)]);

  expect(text).toBe(
    "calendar__create_event(title: string, start: string, attendees?: string[]) [0.94] Creates an event in a calendar and invites the people who should come.",
  );
  expect(items).toEqual([
    {
      name: "calendar__create_event",
      summary: "Creates an event in a calendar and invites the people who should come.",
      signature: "(title: string, start: string, attendees?: string[])",
      score: 0.94,
    },
  ]);
});

test("shows why an action cannot be used right away", () => {
  const states = [
    action("login", { readiness: () => "needs_login" }),
    action("asleep", { readiness: () => "not_started" }),
    action("fine", { readiness: () => "ready" }),
    action("broken", {
      readiness: () => {
        throw new Error("x");
      },
    }),
  ];
  const { text, items } = formatHits(states.map((each) => hit(each)));

  expect(items.map(({ state }) => state)).toEqual(["needs_login", "not_started", undefined, "unavailable"]);
  expect(text).toContain("[0.5, needs login]");
});

const WORDS =
  "the create calendar issue repository organisation deployment 会議 を 作成 пользователь événement https://x.y id_2".split(
    " ",
  );

test.each([
  ["plain", () => action("create_event")],
  [
    "wordy",
    (i: number) => action(`entry_${i}`, { description: `${"Update the repository configuration and ".repeat(20)}x.` }),
  ],
  [
    "wide",
    (i: number) =>
      action(`w${i}`, {
        input: z.object(Object.fromEntries(Array.from({ length: 40 }, (_, p) => [`parameter_${p}`, z.string()]))),
      }),
  ],
  ["long names", (i: number) => action(`${"github_enterprise_".repeat(8)}${i}`)],
  [
    "many scripts",
    (i: number) =>
      action(`s${i}`, {
        description: Array.from({ length: 30 }, (_, w) => WORDS[(w * 7 + i) % WORDS.length]).join(" "),
      }),
  ],
])("a default answer of %s actions has at most 400 tokens and keeps what it shows whole", (_what, make) => {
  const hits = Array.from({ length: 5 }, (_, i) => hit(make(i)));
  const { text, items } = formatHits(hits, ["Nothing available has: frobnicate, zyx"]);

  expect(countTokens(text)).toBeLessThanOrEqual(400);
  expect(text).toContain("frobnicate");
  expect(items.length).toBeGreaterThan(0);
  for (const { summary } of items) expect(summary.length).toBeGreaterThan(60);
  if (items.length < 5) expect(text).toContain(`+${5 - items.length} more`);
});

const wide = (required: number, optional: number) => {
  const texts = (count: number, name: string) =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [`${name}_${at}`, { type: "string" }]));
  const needed = texts(required, "needed");
  return {
    input: { type: "object", properties: { ...texts(optional, "extra"), ...needed }, required: Object.keys(needed) },
  } as const;
};

test("shows every required parameter, and counts the optional ones without room", () => {
  const hits = Array.from({ length: 5 }, (_, i) => hit(action(`e${i}`, wide(6, 30))));
  const { items, text } = formatHits(hits);

  expect(countTokens(text)).toBeLessThanOrEqual(400);
  for (const { signature } of items) {
    expect(signature.match(/needed_\d: string/g)).toHaveLength(6);
    expect(signature).toContain("+30");
  }
});

test("leaves out the last hits before it shortens one", () => {
  const { items, text } = formatHits(Array.from({ length: 5 }, (_, i) => hit(action(`e${i}`, wide(15, 0)))));

  expect(items.length).toBeGreaterThan(1);
  expect(items.length).toBeLessThan(5);
  expect(text).toContain(`\n+${5 - items.length} more`);
  for (const { signature } of items) expect(signature.match(/needed_\d+: string/g)).toHaveLength(15);
});

test("shortens a single hit with too many required parameters", () => {
  const { items, text } = formatHits([hit(action("huge", wide(200, 5)))]);

  expect(countTokens(text)).toBeLessThanOrEqual(400);
  expect(items[0]?.signature).toMatch(/^\(needed_0: string, .*, \+\d+\)$/);
  expect(text).toContain("Creates an event");
});

test("gives an answer with more hits proportionately more tokens", () => {
  const hits = Array.from({ length: 20 }, (_, i) => hit(action(`e${i}`, wide(4, 9))));
  const { items, text } = formatHits(hits);

  expect(items).toHaveLength(20);
  expect(countTokens(text)).toBeGreaterThan(400);
  expect(countTokens(text)).toBeLessThanOrEqual(1600);
});

test("does not end the first sentence at an abbreviation", () => {
  const { items } = formatHits([
    hit(action("run", { description: "Run a statement, e.g. SELECT, on a table. More." })),
  ]);

  expect(items[0]?.summary).toBe("Run a statement, e.g. SELECT, on a table.");
});

test("cuts a long first sentence at a word", () => {
  const long =
    "Moves every message of a mailbox that is older than a given date into another mailbox, keeping flags and labels.";
  const { items } = formatHits([
    hit(action("move", { description: `${long} More.` })),
    hit(action("x", { description: "字".repeat(200) })),
  ]);

  expect(items[0]?.summary).toBe(
    "Moves every message of a mailbox that is older than a given date into another mailbox, keeping flags…",
  );
  expect(items[1]?.summary).toHaveLength(100);
});

test("estimates tokens close to the exact count", () => {
  const text = "Create an issue in a repository, with labels, assignees and a milestone. Answers its number.";

  expect(estimateTokens(text)).toBeGreaterThanOrEqual(countTokens(text) * 0.87);
  expect(estimateTokens(text)).toBeLessThanOrEqual(countTokens(text) * 1.4);
});

test("formats each note as one short line", () => {
  const { text } = formatHits([hit(action("create_event"))], [`one\ntwo() [1] ${"x".repeat(5000)}`]);

  expect(text.split("\n")).toHaveLength(2);
  expect(text.length).toBeLessThan(600);
});
