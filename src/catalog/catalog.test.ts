import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import type { Action } from "../core/action.ts";
import { actionName } from "../core/names.ts";
import { createCatalog } from "./catalog.ts";
import type { Provider } from "./define-action.ts";
import { defineAction, defineResource } from "./define-action.ts";

const read = defineAction("doc", {
  entry: "read",
  description: "Read a document.",
  effect: "read",
  input: z.object({ id: z.string() }),
  run: ({ id }) => `text of ${id}`,
});

const recall = defineAction("rag_operation", {
  entry: "recall",
  description: "Recall from sources.",
  effect: "read",
  input: z.object({ sources: z.array(z.string()), query: z.string(), top_k: z.int().default(5) }),
  run: (args) => args,
});

const corpus = (entry: string) =>
  defineResource("rag_corpus", {
    entry,
    description: `The ${entry} corpus.`,
    target: actionName("rag_operation", "recall"),
    transform: { set: { sources: ["$entry"] } },
  });

/** A provider of `doc` that says when its list has changed. */
function live(list: Provider["list"]) {
  const watchers = new Set<() => void>();
  const watch = (onChange: () => void) => {
    watchers.add(onChange);
    return () => watchers.delete(onChange);
  };
  const notify = () => {
    for (const watcher of watchers) watcher();
  };
  return { provider: { ...provider("doc", list), watch }, notify };
}

const provider = (category: string, list: Provider["list"]): Provider => ({ category, capability: "test", list });

describe("the catalog", () => {
  test("lists the actions of all providers, sorted, and finds them by name", () => {
    const catalog = createCatalog({
      providers: [provider("rag_operation", () => [recall]), provider("doc", () => [read])],
    });

    const snapshot = catalog.snapshot();

    expect(snapshot.actions.map(({ name }) => name)).toEqual(["doc__read", "rag_operation__recall"]);
    expect(snapshot.get("doc__read")).toBe(read);
    expect([...snapshot.byCategory.keys()]).toEqual(["doc", "rag_operation"]);
  });

  test("reports the changes of a list and keeps old snapshots unchanged", () => {
    let actions: Action[] = [read];
    const { provider: doc, notify } = live(() => actions);
    const onChange = vi.fn();
    const catalog = createCatalog({ providers: [doc], onChange });
    const before = catalog.snapshot();

    actions = [defineAction("doc", { ...declared, description: "Read one document." }), other];
    notify();

    expect(onChange).toHaveBeenLastCalledWith({ category: "doc", added: 1, removed: 0, changed: 1 });
    expect(catalog.snapshot().version).toBeGreaterThan(before.version);
    expect(before.actions).toEqual([read]);
  });

  const declared = { entry: "read", effect: "read", input: z.object({ id: z.string() }), run: () => null } as const;
  const other = defineAction("doc", { ...declared, entry: "other", description: "Another." });

  test("ignores a late answer after a newer one", async () => {
    const answers: ((actions: readonly Action[]) => void)[] = [];
    const { provider: slow, notify } = live(() => new Promise((resolve) => answers.push(resolve)));
    const catalog = createCatalog({ providers: [slow] });
    notify();

    answers[1]?.([other]);
    answers[0]?.([read]);
    await catalog.settled();

    expect(catalog.snapshot().actions).toEqual([other]);
  });

  test("ignores a replaced provider", async () => {
    let answer: (actions: readonly Action[]) => void = () => {};
    const slow = provider("doc", () => new Promise<readonly Action[]>((resolve) => (answer = resolve)));
    const onChange = vi.fn();
    const catalog = createCatalog({ providers: [slow], onChange });

    catalog.provide(provider("doc", () => [other]));
    answer([read]);
    await catalog.settled();

    expect(catalog.snapshot().actions).toEqual([other]);
    expect(onChange).toHaveBeenCalledOnce();
  });

  test("ignores a list that arrives after closing", async () => {
    let answer: (actions: readonly Action[]) => void = () => {};
    const onChange = vi.fn(() => {
      throw new Error("the ledger is closed");
    });
    const late = provider("doc", () => new Promise<readonly Action[]>((resolve) => (answer = resolve)));
    const catalog = createCatalog({ providers: [late], onChange, onProblem: onChange });

    await catalog.close();
    answer([read]);
    await catalog.settled();

    expect(onChange).not.toHaveBeenCalled();
  });

  test.each([
    ["not at all", <T>(schema: T) => schema],
    ["only outside", Object.freeze],
  ])("freezes a schema that its provider froze %s", (_how, freeze) => {
    const loose: Action = { ...read, inputSchema: freeze({ type: "object", properties: { a: { type: "string" } } }) };
    const catalog = createCatalog({ providers: [provider("doc", () => [loose])] });

    const schema = catalog.snapshot().get("doc__read")?.inputSchema as { properties: { a: { type: string } } };

    expect(() => {
      schema.properties.a.type = "number";
    }).toThrow(TypeError);
  });

  test("leaves out a value that is no action", () => {
    const onProblem = vi.fn();
    const catalog = createCatalog({ providers: [provider("doc", () => [null as never, read])], onProblem });

    expect(catalog.snapshot().actions).toEqual([read]);
    expect(onProblem).toHaveBeenCalledWith("doc", "something is left out: it is no action");
  });

  test("keeps the last list of a failing provider, and all others", async () => {
    let fail = false;
    const { provider: moody, notify } = live(() => {
      if (fail) throw new Error("no network");
      return [read];
    });
    const onProblem = vi.fn();
    const catalog = createCatalog({
      providers: [moody, provider("rag_operation", async () => Promise.reject(new Error("down")))],
      onProblem,
    });

    fail = true;
    notify();
    await catalog.settled();

    expect(onProblem.mock.calls).toEqual([
      ["doc", "could not list its actions: no network"],
      ["rag_operation", "could not list its actions: down"],
    ]);
    expect(catalog.snapshot().actions).toEqual([read]);
  });

  test("leaves out and reports invalid actions", () => {
    const onProblem = vi.fn();
    const hostile = { ...read, name: actionName("doc", "bad"), entry: "bad", inputSchema: { type: "string" } };

    const catalog = createCatalog({ providers: [provider("doc", () => [read, read, recall, hostile])], onProblem });

    expect(catalog.snapshot().actions).toEqual([read]);
    expect(onProblem.mock.calls.map(([, problem]) => problem)).toEqual([
      "doc__read is left out: it was listed twice",
      "rag_operation__recall is left out: it is not of category doc",
      expect.stringMatching(/doc__bad is left out: the schema has type "string"/),
    ]);
  });

  test("refuses two providers of one category, but replaces and withdraws one", async () => {
    expect(() => createCatalog({ providers: [provider("doc", () => []), provider("doc", () => [])] })).toThrow(
      /two providers claim/,
    );
    const close = vi.fn(async () => {});
    const catalog = createCatalog({ providers: [provider("doc", () => [read])] });

    catalog.provide({ ...provider("doc", () => [other]), close });
    expect(catalog.snapshot().actions).toEqual([other]);
    await catalog.withdraw("doc");

    expect(catalog.snapshot().actions).toEqual([]);
    expect(close).toHaveBeenCalledOnce();
  });
});

describe("a resource", () => {
  const providers = [provider("rag_operation", () => [recall]), provider("rag_corpus", () => [corpus("meetings")])];

  test("has the schema of its operation without the arguments it fills in", () => {
    const meetings = createCatalog({ providers }).snapshot().get("rag_corpus__meetings");

    expect(meetings).toMatchObject({ effect: "read", category: "rag_corpus" });
    expect(meetings?.inputSchema).toMatchObject({ required: ["query"] });
    expect(Object.keys(meetings?.inputSchema.properties ?? {})).toEqual(["query", "top_k"]);
  });

  test("is left out and reported while its operation is missing", () => {
    const onProblem = vi.fn();
    const catalog = createCatalog({ providers: providers.slice(1), onProblem });

    expect(catalog.snapshot().actions).toEqual([]);
    expect(onProblem.mock.calls[0]?.[1]).toMatch(/operation it runs, rag_operation__recall, does not exist/);
    catalog.provide(provider("rag_operation", () => [recall]));
    expect(catalog.snapshot().actions).toHaveLength(2);
  });
});
