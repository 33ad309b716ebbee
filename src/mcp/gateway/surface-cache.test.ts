import { expect, test } from "vitest";
import { createQuartermaster } from "../../app/quartermaster.ts";
import { systemRuntime } from "../../app/system-runtime.ts";
import { createSurfaceCache } from "./surface-cache.ts";
import { profileWith } from "./testing.ts";

async function keeping(kind: "deferred" | "flat") {
  const quartermaster = await createQuartermaster();
  const register = (name: string) =>
    quartermaster.register({
      name,
      description: "Says yes.",
      scope: "generalist",
      effect: "read",
      inputSchema: { type: "object" },
      handler: () => "yes",
    });
  register("one");
  return { keeper: createSurfaceCache(quartermaster, systemRuntime, profileWith({ surface: kind })), register };
}

const caller = { actor: "default", session: "s" };
const namesOf = ({ tools }: { readonly tools: readonly { readonly name: string }[] }) => tools.map(({ name }) => name);

test("a session has one surface, also when it is asked for twice at once", async () => {
  const { keeper } = await keeping("deferred");

  const [first, second] = await Promise.all([keeper.get(caller), keeper.get(caller)]);

  expect(second).toBe(first);
  expect(await keeper.get({ ...caller, session: "another" })).not.toBe(first);
});

test("what was activated stays when the catalog changes, and a flat surface is drawn anew", async () => {
  const deferred = await keeping("deferred");
  await (await deferred.keeper.get(caller)).call("tool__one", {});
  deferred.register("two");
  deferred.keeper.invalidate();
  const flat = await keeping("flat");
  await flat.keeper.get(caller);
  flat.register("two");
  flat.keeper.invalidate();

  expect(namesOf(await deferred.keeper.get(caller))).toContain("tool__one");
  expect(namesOf(await flat.keeper.get(caller))).toEqual(["tool__one", "tool__two"]);
});

test("what all are shown does not follow what one has called", async () => {
  const { keeper } = await keeping("deferred");

  await (await keeper.get(caller)).call("tool__one", {});

  expect(namesOf({ tools: await keeper.listInitialTools() })).not.toContain("tool__one");
});
