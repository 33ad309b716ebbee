import { expect, test } from "vitest";
import type { Action, LoadingMode } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { ActivationScope, SurfaceChoice } from "../core/surface-choice.ts";
import { ACTIVATED_LIMIT, createLoadingResolver, openActivation } from "./activation.ts";
import { type ActivationLists, createActivationLists } from "./activation-store.ts";

const action = (name: string, loading?: LoadingMode): Action => {
  const [category = "", entry = ""] = name.split(/__(.*)/);
  return { name, category, entry, ...(loading === undefined ? {} : { loading }) } as Action;
};

const open = (all: ActivationLists, caller: Caller, choice: SurfaceChoice) => openActivation(all, caller, choice, true);

test.each([
  ["file__read", undefined, {}, "deferred"],
  ["file__read", undefined, { defaultLoadingMode: "always" }, "always"],
  ["file__read", "always", {}, "always"],
  ["file__read", "deferred", { defaultLoadingMode: "always" }, "deferred"],
  ["file__read", "deferred", { alwaysLoadedPatterns: ["file__*"] }, "always"],
  ["file__read", undefined, { alwaysLoadedPatterns: ["file__read"] }, "always"],
  ["file__read", undefined, { alwaysLoadedPatterns: ["read", "file"] }, "deferred"],
  ["tool__tasks.list", undefined, { alwaysLoadedPatterns: ["tasks.*"] }, "always"],
  ["tool__echo", undefined, { alwaysLoadedPatterns: ["echo"] }, "always"],
  ["other__tasks.list", undefined, { alwaysLoadedPatterns: ["tasks.*"] }, "deferred"],
] as const)("the loading of %s, which says %s, under %j is %s", (name, own, choice, loading) => {
  expect(createLoadingResolver(choice)(action(name, own))).toBe(loading);
});

test("activates a deferred action once", async () => {
  const activation = await open(shelves(), { actor: "a", session: "s", turn: "t" }, {});
  const read = action("file__read");

  expect(activation.isDeferred(read)).toBe(true);
  expect(await Promise.all([activation.activate(read), activation.activate(read)])).toEqual([true, false]);

  expect(activation.isDeferred(read)).toBe(false);
  expect(activation.names()).toEqual(["file__read"]);
  expect(activation.isDeferred(action("file__write", "always"))).toBe(false);
});

test("stops activating at the limit", async () => {
  const activation = await open(shelves(), { actor: "a", session: "s" }, {});
  for (let at = 0; at <= ACTIVATED_LIMIT; at++) await activation.activate(action(`x__${at}`));

  expect(activation.names()).toHaveLength(ACTIVATED_LIMIT);
  expect(await activation.activate(action("x__more"))).toBe(false);
});

test("shows offered actions without activating them, with promote", async () => {
  const all = shelves();
  const caller = { actor: "a", session: "s", turn: "t" };
  const plain = await open(all, caller, {});
  await plain.activate(action("x__before"));
  await plain.offer(["x__ignored"]);
  expect(plain.names()).toEqual(["x__before"]);

  const promoting = await open(all, caller, { selection: "promote" });
  await promoting.offer(["x__seen"]);
  expect(promoting.names()).toEqual(["x__before", "x__seen"]);
  expect(promoting.isDeferred(action("x__seen"))).toBe(true);
  expect(await promoting.activate(action("x__seen"))).toBe(true);

  expect(promoting.isDeferred(action("x__seen"))).toBe(false);
  expect(promoting.names()).toEqual(["x__before", "x__seen"]);
  expect((await open(all, caller, { selection: "promote" })).names()).toEqual(["x__before", "x__seen"]);
});

const base: Caller = { actor: "a", session: "s", tenant: "t", turn: "1" };

/** Pairs of callers, and whether they share what is activated. */
test.each<[ActivationScope, Caller, Caller, boolean]>([
  ["session", base, { ...base, turn: "2" }, true],
  ["session", base, { ...base, session: "other" }, false],
  ["session", base, { ...base, actor: "other" }, false],
  ["session", base, { ...base, tenant: "other" }, false],
  ["session", { actor: "a", session: "s" }, { actor: "a", session: "s", tenant: "null" }, false],
  ["session", { actor: "a", session: "b/c" }, { actor: "a/b", session: "c" }, false],
  ["session", { actor: 'a","b', session: "c" }, { actor: "a", session: 'b","c' }, false],
  ["run", base, { ...base }, true],
  ["run", base, { ...base, turn: "2" }, false],
  ["run", base, { ...base, session: "other" }, false],
  ["run", { actor: "a", session: "s" }, { actor: "a", session: "s" }, false],
])("in scope %s, %j and %j share it: %s", async (activationScope, one, other, shared) => {
  const all = shelves();
  const activation = await open(all, one, { activationScope });

  await activation.activate(action("file__read"));

  const names = (await open(all, other, { activationScope })).names();
  expect(names).toEqual(shared ? ["file__read"] : []);
});

test("keeps the activations of a turn out of its session", async () => {
  const all = shelves();
  await (await open(all, base, { activationScope: "run" })).activate(action("file__read"));

  expect((await open(all, base, { activationScope: "session" })).names()).toEqual([]);
});

test("requires a session for scope session, and shares nothing between callers without one", async () => {
  const all = shelves();
  const caller = { actor: "a", session: "local", turn: "1" };

  await expect(openActivation(all, caller, { activationScope: "session" }, false)).rejects.toMatchObject({
    code: "invalid_arguments",
    message: "activation_scope session needs caller.session",
    hint: "Give caller.session, or use activation_scope run.",
  });
  const [ann, bob] = [await openActivation(all, caller, {}, false), await openActivation(all, caller, {}, false)];
  await ann.activate(action("file__read"));
  expect(ann.names()).toEqual(["file__read"]);
  expect(bob.names()).toEqual([]);
});

function shelves() {
  const kept = new Map<string, readonly string[]>();
  const store = {
    read: async (shelf: string) => kept.get(shelf) ?? [],
    async put(shelf: string, names: readonly string[]) {
      kept.set(shelf, [...(kept.get(shelf) ?? []), ...names]);
      return names;
    },
  };
  return createActivationLists(store, (problem) => {
    throw new Error(problem);
  });
}
