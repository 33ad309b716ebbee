import { expect, test } from "vitest";
import { createQuartermaster } from "../../app/quartermaster.ts";
import { systemRuntime } from "../../app/system-runtime.ts";
import { createSurfaceCache } from "./surface-cache.ts";
import { profileWith } from "./testing.ts";

async function openCache(kind: "deferred" | "flat") {
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
  return { cache: createSurfaceCache(quartermaster, systemRuntime, profileWith({ surface: kind })), register };
}

const caller = { actor: "default", session: "s" };
const namesOf = ({ tools }: { readonly tools: readonly { readonly name: string }[] }) => tools.map(({ name }) => name);

test("gives a session one surface, also for concurrent requests", async () => {
  const { cache } = await openCache("deferred");

  const [first, second] = await Promise.all([cache.get(caller), cache.get(caller)]);

  expect(second).toBe(first);
  expect(await cache.get({ ...caller, session: "another" })).not.toBe(first);
});

test("keeps activated actions when the catalog changes, and renews a flat surface", async () => {
  const deferred = await openCache("deferred");
  await (await deferred.cache.get(caller)).call("tool__one", {});
  deferred.register("two");
  deferred.cache.invalidate();
  const flat = await openCache("flat");
  await flat.cache.get(caller);
  flat.register("two");
  flat.cache.invalidate();

  expect(namesOf(await deferred.cache.get(caller))).toContain("tool__one");
  expect(namesOf(await flat.cache.get(caller))).toEqual(["tool__one", "tool__two"]);
});

test("the initial tools do not depend on calls", async () => {
  const { cache } = await openCache("deferred");

  await (await cache.get(caller)).call("tool__one", {});

  expect(namesOf({ tools: await cache.listInitialTools() })).not.toContain("tool__one");
});
