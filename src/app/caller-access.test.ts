import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { defineAction } from "../catalog/define-action.ts";
import { type CatalogSnapshot, takeSnapshot } from "../catalog/snapshot.ts";
import { findTarget } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { evaluateAccess } from "../policy/decide.ts";
import { compilePolicy, type Policy } from "../policy/policy.ts";
import type { TagRule } from "../policy/tag-rules.ts";
import { createViews } from "./caller-access.ts";

const make = (entry: string, more: Partial<Parameters<typeof defineAction>[1]> = {}): Action =>
  defineAction("file", { entry, description: `${entry}.`, effect: "read", input: {}, run: () => null, ...more });

let isAccepted = false;
let shut: string | undefined;
const actions = [
  make("read", { tags: ["a"] }),
  make("write", { effect: "write", tags: ["b"] }),
  make("list", { tags: ["a", "b"] }),
  { ...make("later"), isAccepted: () => isAccepted },
  make("gated", { tags: ["a"] }),
  make("approve", { serves: (_, approval) => approval === "always" }),
];
const resource: Action = {
  ...make("handle", { tags: ["c"] }),
  canonical: { target: actions[0]?.name as Action["name"], transform: {} },
};
const callers: readonly Caller[] = [
  { actor: "default", session: "s1" },
  { actor: "default", session: "s2", tenant: "acme" },
  { actor: "admin", session: "s3", tenant: "acme" },
  { actor: "admin", session: "s3", tenant: "globex", user: { id: "u", tier: "x" } },
];
const policyOptions = {
  actors: [
    { name: "default", tools: ["*"] },
    { name: "admin", tools: ["*"], scope: "admin" },
  ],
  gates: [{ name: "gate", guards: "file__gated", shut: () => shut }],
};
const snapshotOf = (listed: readonly Action[]): CatalogSnapshot => takeSnapshot(1, [listed]).snapshot;

const someRule: fc.Arbitrary<TagRule> = fc.record({
  rule: fc
    .array(
      fc.constantFrom(
        ...["'a' in tool.tags", "'c' in tool.tags", "tool.effect == 'write'", "tool.name == 'file__list'"],
        ...["ctx.tenant == 'acme'", "ctx.tenant != 'globex'", "ctx.session == 's1'", "ctx.user.tier == 'x'"],
        ...["actor.scope == 'admin'", "actor.scope != 'admin'", "tool.missing == 1"],
      ),
      { minLength: 1, maxLength: 3 },
    )
    .map((parts) => parts.join(" && ")),
  effect: fc.constantFrom("hide", "deny", "ask"),
});

test("a view shows what the policy decides for its caller, in whichever order the callers ask", () => {
  const someSteps = fc.array(fc.record({ caller: fc.constantFrom(...callers), isShut: fc.boolean() }), {
    maxLength: 8,
  });
  fc.assert(
    fc.property(fc.array(someRule, { maxLength: 4 }), someSteps, (rules, steps) => {
      const policy = compilePolicy({ ...policyOptions, rules });
      const snapshot = snapshotOf([...actions, resource]);
      const views = createViews({ snapshot: () => snapshot });
      for (const { caller, isShut } of steps) {
        shut = isShut ? "closed" : undefined;
        isAccepted = !isShut;
        const view = views.get(policy, caller);
        const decided = snapshot.actions.map((action) => {
          const access = evaluateAccess(policy, { action, target: findTarget(snapshot, action), caller });
          return { action, ...access };
        });
        const asks = decided.some(
          ({ visible, approval, action }) => visible && approval === "always" && !action.serves,
        );
        for (const { action, visible, approval } of decided) {
          expect(view.sees(action)).toBe(visible && (action.serves === undefined || asks));
          expect(view.approval(action)).toBe(approval);
        }
      }
    }),
  );
});

const byTenant: TagRule = { rule: "ctx.tenant == 'acme' && 'a' in tool.tags", effect: "hide" };
const acme: Caller = { actor: "default", session: "s1", tenant: "acme" };
const globex: Caller = { actor: "default", session: "s2", tenant: "globex" };
const listNames = (listed: readonly Action[]) => listed.map(({ entry }) => entry);

test("callers that no rule tells apart share one view", () => {
  const snapshot = snapshotOf(actions);
  const views = createViews({ snapshot: () => snapshot });
  const policy = compilePolicy({ rules: [byTenant] });

  expect(views.get(policy, { ...acme, session: "s9", turn: "t", user: { id: "u" } })).toBe(views.get(policy, acme));
  expect(views.get(policy, globex)).not.toBe(views.get(policy, acme));
});

test("decides once for all callers of an actor on an action whose rules do not read the caller", () => {
  const snapshot = snapshotOf(actions);
  const views = createViews({ snapshot: () => snapshot });
  const policy = compilePolicy({ rules: [byTenant] });
  const findRules = vi.spyOn(policy.ruleIndex, "findRules");

  views.get(policy, acme).actions();
  findRules.mockClear();
  const listed = views.get(policy, globex).actions();

  expect(listNames(listed)).toContain("read");
  const decided = new Set(findRules.mock.calls.map(([action]) => action.entry));
  expect([...decided].sort()).toEqual(["gated", "later", "list", "read"]);
});

test("a new policy and a new catalog are decided on anew", () => {
  let snapshot = snapshotOf(actions);
  const views = createViews({ snapshot: () => snapshot });
  const list = (policy: Policy, caller: Caller) => listNames(views.get(policy, caller).actions());
  const policy = compilePolicy({ rules: [byTenant] });
  const stricter = compilePolicy({ rules: [byTenant, { rule: "tool.effect == 'write'", effect: "hide" }] });

  expect([list(policy, acme), list(policy, globex)].map((names) => names.includes("write"))).toEqual([true, true]);
  expect([list(stricter, acme), list(stricter, globex)].map((names) => names.includes("write"))).toEqual([
    false,
    false,
  ]);
  expect(list(policy, globex)).toContain("write");

  snapshot = snapshotOf([make("write", { effect: "write", tags: ["a"] })]);

  expect([list(policy, acme), list(policy, globex)]).toEqual([[], ["write"]]);
});

test("a former catalog can be collected while nothing is called", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  setFlagsFromString("--no-expose-gc");
  let snapshot = snapshotOf(actions.map((action) => ({ ...action })));
  const views = createViews({ snapshot: () => snapshot });
  const policy = compilePolicy({ rules: [byTenant] });
  for (const caller of [acme, globex]) views.get(policy, caller).actions();
  const former = new WeakRef(snapshot);
  const action = new WeakRef(snapshot.actions[0] as Action);

  snapshot = snapshotOf(actions);

  // Compiled code may hold values for a few collections, and one takes long in a heap that many tests share.
  const isCollected = (): boolean => former.deref() === undefined && action.deref() === undefined;
  for (let round = 0; round < 20 && !isCollected(); round += 1) {
    await nextTurn();
    collect();
  }
  expect(isCollected()).toBe(true);
  expect(views.get(policy, acme).get("file__write")).toBeDefined();
});
