import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../core/json.ts";
import { formatJsonPath, type PathStep, parseJsonPath } from "../json-path.ts";
import { takeFirst } from "./operation.ts";
import { missingFieldModes, pluckItems, projectItems } from "./project.ts";
import { anyItem, createEndlessItems, hostileKeys, readAll, streamItems, toTexts } from "./testing.ts";

const fields = (...paths: string[]) => paths.map(parseJsonPath);

/** Undefined: not there. Written without the code under test. */
function read(value: Json, steps: readonly PathStep[]): Json | undefined {
  let at: unknown = value;
  for (const step of steps) {
    if (Array.isArray(at)) at = typeof step === "number" ? at[step < 0 ? at.length + step : step] : undefined;
    else if (typeof at === "object" && at !== null && typeof step === "string") {
      at = Object.entries(at).find(([key]) => key === step)?.[1];
    } else return undefined;
    if (at === undefined) return undefined;
  }
  return at as Json;
}

/** The value with only these parts left; undefined where nothing is. */
function pruned(value: Json, paths: readonly (readonly PathStep[])[]): Json | undefined {
  if (paths.some((path) => path.length === 0)) return value;
  if (typeof value !== "object" || value === null) return undefined;
  const isArray = Array.isArray(value);
  const entries: [string, Json][] = [];
  for (const [key, part] of Object.entries(value)) {
    const below = paths
      .filter(([step]) =>
        isArray ? typeof step === "number" && (step < 0 ? value.length + step : step) === Number(key) : step === key,
      )
      .map((path) => path.slice(1));
    const left = below.length === 0 ? undefined : pruned(part, below);
    if (left !== undefined) entries.push([key, left]);
  }
  if (entries.length === 0) return undefined;
  return isArray ? entries.map(([, part]) => part) : Object.fromEntries(entries);
}

const steps = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...hostileKeys) },
    { weight: 1, arbitrary: fc.constantFrom(0, 1, -1, -2) },
  ),
  {
    minLength: 0,
    maxLength: 3,
  },
);
const somePaths = fc.array(steps, { minLength: 1, maxLength: 4 });
const someItems = fc.array(anyItem, { maxLength: 8 });

describe("project", () => {
  test("keeps the nesting of the fields", async () => {
    const item = { owner: { name: "Ada", phone: 1 }, items: [{ id: 1, x: 2 }, { id: 2 }, { id: 3 }], rest: 0 };
    const { contents } = await readAll(
      projectItems([{ content: item }], { fields: fields("items[-1].id", "owner.name", "items[0]"), missing: "omit" }),
    );

    expect(contents).toEqual([{ items: [{ id: 1, x: 2 }, { id: 3 }], owner: { name: "Ada" } }]);
  });

  test("renames fields", async () => {
    const named = new Map([
      ["__proto__", parseJsonPath("owner.name")],
      ["first.id", parseJsonPath("items[0]")],
    ]);
    const { contents, report } = await readAll(
      projectItems([{ content: { owner: { name: "Ada" } } }], { fields: named, missing: "null" }),
    );

    expect(JSON.stringify(contents)).toBe('[{"__proto__":"Ada","first.id":null}]');
    expect(report.missing).toEqual([
      { path: "items[0]", count: 1, position: 0, reason: "the value has no items; it has: owner" },
    ]);
  });

  test("agrees with a model that prunes items", async () => {
    await fc.assert(
      fc.asyncProperty(
        someItems,
        somePaths,
        fc.constantFrom("omit" as const, "drop" as const),
        async (items, paths, missing) => {
          const parsed = paths.map((path) => parseJsonPath(formatJsonPath(path)));
          const { contents, report } = await readAll(projectItems(streamItems(items), { fields: parsed, missing }));
          const expected = items
            .filter((item) => missing === "omit" || paths.every((path) => read(item, path) !== undefined))
            .map((item) => pruned(item, paths))
            .filter((item) => item !== undefined);

          expect(toTexts(contents)).toEqual(toTexts(expected));
          expect(report).toMatchObject({ input: items.length, dropped: items.length - contents.length });
          for (const [index, path] of paths.entries()) {
            const lacking = items.filter((item) => read(item, path) === undefined).length;
            const told = report.missing.filter(({ path: text }) => text === parsed[index]?.text);
            expect(told.map(({ count }) => count)).toEqual(Array(lacking === 0 ? 0 : told.length).fill(lacking));
            expect(told.length > 0).toBe(lacking > 0);
          }
        },
      ),
    );
  });

  test("puts each value, null or nothing under its new name", async () => {
    const names = fc.uniqueArray(fc.tuple(fc.constantFrom(...hostileKeys), steps), {
      selector: ([name]) => name,
      minLength: 1,
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(someItems, names, fc.constantFrom(...missingFieldModes), async (items, pairs, missing) => {
        const map = new Map(pairs.map(([name, path]) => [name, parseJsonPath(formatJsonPath(path))]));
        const { contents, report } = await readAll(projectItems(streamItems(items), { fields: map, missing }));
        const expected = items.flatMap((item) => {
          const found = pairs.map(([name, path]) => [name, read(item, path)] as const);
          if (missing === "drop" && found.some(([, value]) => value === undefined)) return [];
          const kept = found.flatMap(([name, value]) =>
            value !== undefined ? [[name, value]] : missing === "null" ? [[name, null]] : [],
          );
          return kept.length === 0 ? [] : [Object.fromEntries(kept)];
        });

        expect(toTexts(contents)).toEqual(toTexts(expected));
        expect(contents.length + report.dropped).toBe(items.length);
      }),
    );
  });

  test("puts null for missing parts without losing others", async () => {
    await fc.assert(
      fc.asyncProperty(someItems, somePaths, async (items, paths) => {
        const parsed = paths.map((path) => parseJsonPath(formatJsonPath(path)));
        const { contents, report } = await readAll(
          projectItems(streamItems(items), { fields: parsed, missing: "null" }),
        );

        expect(report.dropped).toBe(0);
        expect(contents).toHaveLength(items.length);
        for (const [index, item] of items.entries()) {
          const names = paths.filter((path) => path.every((step) => typeof step === "string"));
          for (const path of names) {
            const was = read(item, path);
            const is = read(contents[index] ?? null, path);
            if (was === undefined) expect(is ?? null).toBe(null);
            else if (!paths.some((other) => other.length > path.length)) expect(is).toEqual(was);
            else expect(is).not.toBe(undefined);
          }
        }
      }),
    );
  });

  test.each([
    [["items.x", "items[0]"], { items: [1, 2] }, { items: [1] }],
    [["owner.phone", "owner"], { owner: null }, { owner: null }],
    [["owner", "owner.phone"], { owner: { name: 1 } }, { owner: { name: 1 } }],
    [["owner.phone", "owner.name"], { owner: "x" }, { owner: { phone: null, name: null } }],
    [["items[5].id", "items[0].id"], { items: [{ id: 1 }] }, { items: [{ id: 1 }, { id: null }] }],
    [["[0]"], "text", [null]],
  ])("of %j with null for what is missing", async (paths, content, expected) => {
    const { contents } = await readAll(projectItems([{ content }], { fields: fields(...paths), missing: "null" }));

    expect(contents).toEqual([expected]);
  });
});

describe("pluck", () => {
  test("takes the value of each item that has one", async () => {
    await fc.assert(
      fc.asyncProperty(someItems, steps, async (items, path) => {
        const { contents, report } = await readAll(
          pluckItems(streamItems(items, 1), parseJsonPath(formatJsonPath(path))),
        );

        const expected = items.map((item) => read(item, path)).filter((value) => value !== undefined);

        expect(toTexts(contents)).toEqual(toTexts(expected));
        expect(report.input).toBe(items.length);
        expect(report.dropped).toBe(items.length - contents.length);
        expect(report.missing.map(({ position }) => position)).toEqual(
          items.flatMap((item, index) => (read(item, path) === undefined ? [index] : [])).slice(0, 3),
        );
      }),
    );
  });
});

test("reads no more of its input than is consumed", async () => {
  for (const operation of [
    (inputs: AsyncIterable<{ content: Json }>) => pluckItems(inputs, parseJsonPath("n")).items,
    (inputs: AsyncIterable<{ content: Json }>) => projectItems(inputs, { fields: fields("n"), missing: "omit" }).items,
  ]) {
    const source = createEndlessItems((n) => ({ n }));
    const taken = [];
    for await (const { content } of takeFirst(operation(source.inputs), 3)) taken.push(content);

    expect(taken).toHaveLength(3);
    expect(source.read()).toBe(3);
  }
});
