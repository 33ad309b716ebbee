import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { createQuartermaster, fileProvider, type QuartermasterOptions } from "../../src/index.ts";

// Limits count work, not time: the same input gets the same answer on a busy machine, and the answer says what happened.

async function open(options: QuartermasterOptions = {}) {
  const root = await mkdtemp(join(tmpdir(), "qm-work-"));
  const quartermaster = await createQuartermaster({ providers: [fileProvider({ root })], ...options });
  onTestFinished(async () => {
    await quartermaster.close();
    await rm(root, { recursive: true, force: true });
  });
  return { root, quartermaster };
}

const numbers = Array.from({ length: 2_000 }, (_, at) => at);

describe("a rule that reaches its work limit", () => {
  const rules = [
    {
      name: "no-triples",
      rule: "has(args.list) && args.list.exists(a, args.list.exists(b, args.list.exists(c, a + b + c < 0)))",
      effect: "deny" as const,
      reason: "Triples are not allowed.",
    },
  ];
  const tool = {
    name: "sum",
    description: "Add up a list.",
    inputSchema: { type: "object", properties: { list: { type: "array" } } },
    effect: "read",
    scope: "generalist",
    handler: ({ list }: { list?: readonly number[] }) => (list ?? []).reduce((sum, one) => sum + one, 0),
  } as const;

  test("refuses the call as not_evaluated and does not give the rule's reason", async () => {
    const { quartermaster } = await open({ policy: { rules } });
    quartermaster.register(tool);

    const small = await quartermaster.invoke("tool__sum", { list: [1, 2, 3] });
    const large = await quartermaster.invoke("tool__sum", { list: numbers });

    expect(small).toMatchObject({ status: "done", data: 6 });
    expect(large).toMatchObject({ status: "refused", error: { code: "not_evaluated" } });
    expect(large.value).toContain("could not be evaluated");
    expect(large.value).not.toContain("Triples");
    // The refusal is not cached. The next call is decided on its own.
    expect(await quartermaster.invoke("tool__sum", { list: [4] })).toMatchObject({ status: "done" });
    const decided = await quartermaster.ledger.read({ type: "call.decided" });
    expect(JSON.stringify(decided.map(({ data }) => data))).toContain("no-triples");
  });

  test("refuses at the same size every time", async () => {
    const { quartermaster } = await open({ policy: { rules } });
    quartermaster.register(tool);
    const sizes = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50];
    const statuses = async () => {
      const outcomes = sizes.map((size) => quartermaster.invoke("tool__sum", { list: numbers.slice(0, size) }));
      return (await Promise.all(outcomes)).map(({ status }) => status);
    };

    const first = await statuses();

    expect(new Set(first)).toEqual(new Set(["done", "refused"]));
    for (let round = 0; round < 5; round++) expect(await statuses()).toEqual(first);
  });

  test("shares its budget with the other rules of the decision", async () => {
    const many = Array.from({ length: 40 }, (_, at) => ({ ...rules[0], name: `rule-${at}` }) as (typeof rules)[number]);
    const { quartermaster } = await open({ policy: { rules: many } });
    quartermaster.register(tool);
    // Each rule alone is within the limit.
    const list = numbers.slice(0, 12);

    const { quartermaster: one } = await open({ policy: { rules } });
    one.register(tool);

    expect(await one.invoke("tool__sum", { list })).toMatchObject({ status: "done" });
    expect(await quartermaster.invoke("tool__sum", { list })).toMatchObject({ error: { code: "not_evaluated" } });
  });
});

describe("a pattern in file__grep", () => {
  const letters = Array.from({ length: 200_000 }, (_, at) => (((at * 2_654_435_761) >>> 16) % 3 ? "a" : "b")).join("");

  test("skips a line that needs too much work, reports it and searches the others", async () => {
    const { root, quartermaster } = await open();
    await writeFile(join(root, "a.txt"), `${letters}\nshort azz line ${"a".repeat(1)}${"x".repeat(300)}z\n`);

    const outcome = await quartermaster.invoke("file__grep", { pattern: "a.{300}z", path: "a.txt" });

    expect(outcome).toMatchObject({ status: "done", data: { lines_skipped: 1, matches: [{ line: 1 }] } });
  });

  test("is refused when it is too large", async () => {
    const { quartermaster } = await open();
    const pattern = Array.from({ length: 70 }, (_, at) => `[ab]{${920 + at}}c`).join("|");

    const outcome = await quartermaster.invoke("file__grep", { pattern: pattern.slice(0, 999) });

    expect(outcome).toMatchObject({ status: "failed", error: { code: "invalid_arguments" } });
    expect(outcome.value).toContain("too large");
  });
});

test("a path has at most 128 parts", async () => {
  const { quartermaster } = await open();
  const read = (parts: number) => quartermaster.invoke("file__read", { path: Array(parts).fill("a").join("/") });

  expect(await read(128)).toMatchObject({ error: { code: "not_found" } });
  expect(await read(129)).toMatchObject({ error: { code: "path_refused" } });
});

test("an output schema that reaches its work limit fails the result, and the process continues", async () => {
  const { quartermaster } = await open();
  const alternatives = (seed: number) => Array.from({ length: 20 }, (_, at) => `[ab]{${20 + at}}c${seed}`).join("|");
  quartermaster.register({
    name: "letters",
    description: "Answer letters.",
    inputSchema: { type: "object" },
    outputSchema: {
      type: "object",
      properties: { text: { allOf: Array.from({ length: 8 }, (_, at) => ({ pattern: alternatives(at) })) } },
    },
    effect: "read",
    scope: "generalist",
    handler: () => ({ text: "ab".repeat(200_000) }),
  });

  const outcome = await quartermaster.invoke("tool__letters");

  expect(outcome).toMatchObject({ status: "failed", error: { code: "invalid_output" } });
});
