import { expect, test } from "vitest";
import { createQuartermaster } from "../../quartermaster.ts";
import { systemRuntime } from "../../system-runtime.ts";
import { createSurfaceKeeper } from "./surface-keeper.ts";
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
  return { keeper: createSurfaceKeeper(quartermaster, systemRuntime, profileWith({ surface: kind })), register };
}

const caller = { actor: "default", session: "s" };
const namesOf = ({ tools }: { readonly tools: readonly { readonly name: string }[] }) => tools.map(({ name }) => name);

test("a session has one surface, also when it is asked for twice at once", async () => {
  const { keeper } = await keeping("deferred");

  const [first, second] = await Promise.all([keeper.of(caller), keeper.of(caller)]);

  expect(second).toBe(first);
  expect(await keeper.of({ ...caller, session: "another" })).not.toBe(first);
});

test("what was activated stays when the catalog changes, and a flat surface is drawn anew", async () => {
  const deferred = await keeping("deferred");
  await (await deferred.keeper.of(caller)).call("tool__one", {});
  deferred.register("two");
  deferred.keeper.changed();
  const flat = await keeping("flat");
  await flat.keeper.of(caller);
  flat.register("two");
  flat.keeper.changed();

  expect(namesOf(await deferred.keeper.of(caller))).toContain("tool__one");
  expect(namesOf(await flat.keeper.of(caller))).toEqual(["tool__one", "tool__two"]);
});

test("what all are shown does not follow what one has called", async () => {
  const { keeper } = await keeping("deferred");

  await (await keeper.of(caller)).call("tool__one", {});

  expect(namesOf({ tools: await keeper.constant() })).not.toContain("tool__one");
});
