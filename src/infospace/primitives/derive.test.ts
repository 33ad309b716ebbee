import { describe, expect, test, vi } from "vitest";
import type { Json } from "../../core/json.ts";
import { createTestAuthor, testCaller } from "../testing.ts";
import type { PrimitiveFactory } from "./derive.ts";
import { filterAction } from "./filter.ts";
import { joinAction } from "./join.ts";
import { pluckAction, projectAction } from "./project.ts";
import { sortAction } from "./sort.ts";
import { createTestPrimitives } from "./testing.ts";

const fieldActions: PrimitiveFactory = (parts) =>
  [projectAction, pluckAction, filterAction, sortAction, joinAction].map((define) => define(parts));

const people: readonly Json[] = [
  { id: 1, name: "Ada", age: 36, owner: { email: "a@x" } },
  { id: 2, name: "Bob", age: "old", owner: {} },
  { id: 3, name: "Cid", age: 20 },
  "nobody",
];

async function withPeople() {
  const made = createTestPrimitives(fieldActions);
  const { id } = await made.infospace.collect(
    createTestAuthor(testCaller),
    people.map((content) => ({ content })),
  );
  const target = `collection__${id}`;
  const first = (await made.infospace.collection(target, testCaller)).id;
  return { ...made, target, first, ids: [...made.infospace.notes.keys()] };
}

describe("project", () => {
  test("makes a collection of the fields, and reports missing ones", async () => {
    const { run, infospace, target } = await withPeople();
    const answer = await run("project", { target, fields: ["id", "owner.email"], name: "mails" });

    expect(infospace.contents(String(answer.handle))).toEqual([
      { id: 1, owner: { email: "a@x" } },
      { id: 2 },
      { id: 3 },
    ]);
    expect(answer).toMatchObject({ kind: "collection", name: "mails", count: 3, input: 4, dropped: 1 });
    expect(answer.missing).toEqual([
      { path: "id", count: 1, position: 3, reason: "the value is a string, which has no parts" },
      { path: "owner.email", count: 3, position: 1, reason: "owner has no email; it has no fields" },
    ]);
    expect(answer.keys).toBeDefined();
    expect(answer.first).toBeDefined();
  });

  test("renames fields, and drops incomplete items on request", async () => {
    const { run, infospace, target } = await withPeople();
    const answer = await run("project", { target, fields: { who: "name", mail: "owner.email" }, missing: "drop" });

    expect(infospace.contents(String(answer.handle))).toEqual([{ who: "Ada", mail: "a@x" }]);
    expect(answer).toMatchObject({ count: 1, input: 4, dropped: 3 });
    await expect(run("project", { target, fields: [] })).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(run("project", { target, fields: {} })).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(run("project", { target, fields: ["a["] })).rejects.toThrow(/"a\[" is not a path/);
  });
});

test("pluck makes a collection of the values", async () => {
  const { run, infospace, target } = await withPeople();
  const answer = await run("pluck", { target, path: "name" });

  expect(infospace.contents(String(answer.handle))).toEqual(["Ada", "Bob", "Cid"]);
  expect(answer).toMatchObject({ count: 3, input: 4, dropped: 1, missing: [{ position: 3 }] });
});

describe("filter-structured", () => {
  test("keeps the same notes", async () => {
    const { run, infospace, target, ids } = await withPeople();
    const answer = await run("filter-structured", { target, where: "age > 30" });
    const { id } = await infospace.collection(String(answer.handle), testCaller);
    const kept = [];
    for await (const item of infospace.items({ ...(await infospace.collection(`collection__${id}`, testCaller)) }))
      kept.push(item.id);

    expect(kept).toEqual([ids[0]]);
    expect(answer).toMatchObject({ count: 1, input: 4, dropped: 1, undecided: 2 });
    expect(answer.reasons).toHaveLength(2);
  });

  test("returns an empty collection for no matches, and fails for an invalid expression", async () => {
    const { run, target } = await withPeople();

    expect(await run("filter-structured", { target, where: "position > 100" })).toMatchObject({
      count: 0,
      input: 4,
      dropped: 4,
    });
    await expect(run("filter-structured", { target, where: "age > 30 AND x" })).rejects.toMatchObject({
      code: "invalid_expression",
    });
    await expect(run("filter-structured", { target: "collection__99", where: "true" })).rejects.toMatchObject({
      code: "not_found",
    });
  });

  test("leaves no collection if no item can be decided", async () => {
    const { run, infospace, target } = await withPeople();
    const collecting = vi.spyOn(infospace, "collect");

    await expect(run("filter-structured", { target, where: "agee > 3", name: "old" })).rejects.toMatchObject({
      code: "invalid_expression",
      message: expect.stringContaining("did you mean age?"),
    });
    expect(collecting).not.toHaveBeenCalled();
  });

  test("warns if only some items could be decided", async () => {
    const { run, target } = await withPeople();

    expect(await run("filter-structured", { target, where: "age > 30" })).toMatchObject({
      warning: expect.stringMatching(/^2 of 4 items are left out/),
    });
  });

  test("takes plain values", async () => {
    const { run, infospace } = await withPeople();
    const answer = await run("filter-structured", { target: [{ a: 1 }, { a: 2 }], where: "a > 1" });

    expect(infospace.contents(String(answer.handle))).toEqual([{ a: 2 }]);
  });
});

test("sort keeps all items, with both forms of arguments", async () => {
  const { run, infospace, target } = await withPeople();
  const byAge = await run("sort", { target, by: "age", order: "desc" });
  const byName = await run("sort", { target, by: [{ path: "name", order: "desc" }, "id"], missing: "first" });

  expect(infospace.contents(String(byAge.handle))).toEqual([people[1], people[0], people[2], people[3]]);
  expect(infospace.contents(String(byName.handle))).toEqual([people[3], people[2], people[1], people[0]]);
  expect(byAge).toMatchObject({ count: 4, input: 4, dropped: 0, missing: [{ path: "age", count: 1 }] });
  expect(byAge).toMatchObject({
    mixed: [{ path: "age", types: { number: 2, string: 1 } }],
    warning: expect.stringContaining("infospace__coerce"),
    types: { object: 3, string: 1 },
  });
  expect(byName).not.toHaveProperty("mixed");
  await expect(run("sort", { target, by: "-age" })).rejects.toMatchObject({
    code: "not_found",
    hint: expect.stringContaining('{"by":"age","order":"desc"}'),
  });
  for (const by of [[], [{ path: "age", direction: "desc" }], [5]])
    await expect(run("sort", { target, by })).rejects.toMatchObject({ code: "invalid_arguments" });
});

test("join makes rows, and reports unmatched items and clashes", async () => {
  const { run, infospace, target } = await withPeople();
  const other = [{ person: 1, name: "Ada L." }, { person: 1, city: "London" }, { person: 9 }];
  const answer = await run("join", {
    target,
    with: other,
    on: { left: "id", right: "person" },
    kind: "left",
    limit: 3,
  });

  expect(infospace.contents(String(answer.handle))).toEqual([
    { ...(people[0] as object), person: 1, right_name: "Ada L." },
    { ...(people[0] as object), person: 1, city: "London" },
    people[1],
  ]);
  expect(answer).toMatchObject({
    count: 3,
    input: { left: 4, right: 3 },
    dropped: { left: 0, right: 1 },
    unmatched: { left: 3, right: 1 },
    without_key: { left: 1, right: 0 },
    repeated_keys: { left: 0, right: 1 },
    clashes: [{ field: "name", rows: 1 }],
    limit_reached: true,
    rows_left_out: 2,
  });
  expect(await run("join", { target, with: [], on: ["id", "name"] })).toMatchObject({
    count: 0,
    unmatched: { left: 4, right: 0 },
  });
});

test("reports that the input is not complete", async () => {
  const { run, infospace, target } = await withPeople();
  const { resource } = infospace;
  infospace.resource = async (handle, caller) => ({ ...(await resource(handle, caller)), complete: false });
  const byHand = [{ id: 1 }];

  expect(await run("filter-structured", { target, where: "has(id)" })).toMatchObject({ incomplete_input: true });
  expect(await run("project", { target, fields: ["id"] })).toMatchObject({ incomplete_input: true });
  expect(await run("join", { target: byHand, with: target, on: "id" })).toMatchObject({ incomplete_input: true });
  expect(await run("join", { target: byHand, with: byHand, on: "id" })).not.toHaveProperty("incomplete_input");
});

test("aborts a long operation over values in memory", async () => {
  const controller = new AbortController();
  const { run } = createTestPrimitives(fieldActions, { signal: controller.signal });
  setImmediate(() => controller.abort(new Error("enough")));

  await expect(run("filter-structured", { target: Array(5000).fill({ a: 1 }), where: "a > 1" })).rejects.toThrow(
    "enough",
  );
});

test("each requires its target and has a valid example", () => {
  const actions = fieldActions({
    infospace: undefined as never,
    search: undefined as never,
    previewLimit: 1,
    valueLimit: 4_096,
  });

  expect(actions.map(({ name }) => name)).toEqual([
    "infospace__project",
    "infospace__pluck",
    "infospace__filter-structured",
    "infospace__sort",
    "infospace__join",
  ]);
  for (const { inputSchema, examples, effect } of actions) {
    expect(inputSchema.required).toContain("target");
    expect(effect).toBe("read");
    for (const { args } of examples)
      expect(Object.keys(args)).toEqual(expect.arrayContaining(inputSchema.required as string[]));
    expect(examples.length).toBeGreaterThan(0);
  }
});

test("an answer has at most twice the length of the preview limit", async () => {
  const { run } = await withPeople();
  const wide = Array.from({ length: 50 }, (_, row) =>
    Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`field_${at}_${row}`, "x".repeat(500)])),
  );
  const answer = await run("sort", { target: wide, by: "field_1_1" });

  expect(JSON.stringify(answer).length).toBeLessThan(2000);
});
