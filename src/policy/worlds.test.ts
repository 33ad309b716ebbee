import { describe, expect, test } from "vitest";
import { defineAction } from "../catalog/define-action.ts";
import type { Action } from "../core/action.ts";
import { decide } from "./decide.ts";
import { explain } from "./explain.ts";
import { compilePolicy, findPolicyWarnings, type PolicyOptions } from "./policy.ts";
import { findRuleProblems } from "./rule-problems.ts";

const make = (category: string, entry: string, world?: string): Action =>
  defineAction(category, {
    entry,
    description: `${entry}.`,
    effect: "read",
    input: { type: "object" },
    run: () => null,
    ...(world !== undefined && { world }),
  });

const read = make("file", "read");
const build = make("skill", "mine__build", "mine");
const dig = make("tool", "dig");
const share = make("tool", "share");
const actions = [read, build, dig, share];

const policy: PolicyOptions = {
  worlds: [
    { name: "mine", actions: ["dig", "tool__s*"] },
    { name: "sea", actions: ["tool__share"] },
  ],
  world: "sea",
  actors: [
    { name: "default", tools: ["*"] },
    { name: "miner", tools: ["*"], world: "mine" },
    { name: "outside", tools: ["*"], world: null },
  ],
};

/** The names that an actor sees. */
function listSeen(options: PolicyOptions, actor: string): readonly string[] {
  const compiled = compilePolicy(options);
  const sees = (action: Action) => decide(compiled, { action, caller: { actor, session: "s" } }).kind === "allow";
  return actions.filter(sees).map(({ name }) => name);
}

describe("the actions of a world", () => {
  test.each([
    ["miner", ["file__read", "skill__mine__build", "tool__dig", "tool__share"]],
    ["default", ["file__read", "tool__share"]],
    ["outside", ["file__read"]],
  ])("are seen only by actors in it: %s", (actor, seen) => {
    expect(listSeen(policy, actor)).toEqual(seen);
  });

  test("are seen by no actor when the world is not configured", () => {
    const compiled = compilePolicy();

    expect(listSeen({}, "default")).toEqual(["file__read", "tool__dig", "tool__share"]);
    expect(findPolicyWarnings(compiled, actions)).toEqual(['no world is called "mine", so no caller sees its actions']);
  });

  test("stay hidden when a resource runs one of them", () => {
    const resource = { ...make("page", "shaft"), canonical: { target: dig.name, transform: {} } };
    const decideFor = (actor: string) =>
      decide(compilePolicy(policy), { action: resource, target: dig, caller: { actor, session: "s" } });

    expect(decideFor("default")).toMatchObject({ kind: "deny", hidden: true, objection: { about: "tool__dig" } });
    expect(decideFor("miner")).toEqual({ kind: "allow" });
  });

  test("are explained with the worlds they belong to", () => {
    const known = { actions, pending: [], get: (name: string) => actions.find((each) => each.name === name) };
    const because = (name: string, actor: string) =>
      explain(compilePolicy(policy), known, name, { actor, session: "s" }).because;

    expect(because("skill__mine__build", "default")).toEqual({
      layer: "world",
      rule: "it belongs to the world mine; actor default is in sea",
      world: "mine",
    });
    expect(because("tool__share", "outside")).toEqual({
      layer: "world",
      rule: "it belongs to the worlds mine and sea; actor outside is in none",
      world: "mine",
    });
    expect(because("tool__dig", "miner")).toBeUndefined();
  });
});

test.each([
  [{ world: "mien" }, 'world: no world is called "mien"; did you mean mine?'],
  [{ actors: [{ name: "a", tools: [], world: "se" }] }, 'actors.a.world: no world is called "se"; did you mean sea?'],
])("an unknown world is a configuration error: %j", (more, message) => {
  expect(() => compilePolicy({ ...policy, ...more })).toThrow(
    expect.objectContaining({ code: "invalid_config", message }),
  );
});

test("rules compare the worlds of the actor and of the tool", () => {
  const hide = (rule: string) => ({ ...policy, rules: [{ rule, effect: "hide" as const }] });

  expect(listSeen(hide("tool.world == 'mine'"), "miner")).toEqual(["file__read"]);
  expect(listSeen(hide("actor.world == 'sea' && tool.world == ''"), "default")).toEqual(["tool__share"]);
  expect(findRuleProblems(compilePolicy(hide("actor.wrld == ''")), actions, true)).toMatchObject([
    { message: expect.stringContaining("did you mean world?") },
  ]);
});

test("warns of patterns without an action, and of an actor that lists an action of another world", () => {
  const worlds = [{ name: "mine", actions: ["tool__digg", "dig"] }];
  const actors = [{ name: "default", tools: ["dig"] }];

  expect(findPolicyWarnings(compilePolicy({ worlds, actors }), [dig])).toEqual([
    'the world mine lists "tool__digg", which no action fits; did you mean tool__dig?',
    'actor default lists "tool__dig", but it belongs to the world mine; actor default is in none',
  ]);
});

test("a changed world changes the version of the policy, a changed description does not", () => {
  const getVersion = (more: object) =>
    compilePolicy({ ...policy, worlds: [{ name: "sea", ...more }], actors: [] }).version;

  expect(getVersion({ actions: ["a__b"] })).not.toBe(getVersion({ actions: [] }));
  expect(getVersion({ description: "x", actions: [] })).toBe(getVersion({ actions: [] }));
});
