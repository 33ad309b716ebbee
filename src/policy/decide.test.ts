import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineAction } from "../catalog/define-action.ts";
import { createToolRegistry } from "../catalog/tool-registry.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { type ActorConfig, findActorProblems } from "./actors.ts";
import { decide, hasSharedAccess, listObjections } from "./decide.ts";
import { explain } from "./explain.ts";
import { compilePolicy, type PolicyOptions } from "./policy.ts";

const caller: Caller = { actor: "default", session: "s1", tenant: "acme", user: { id: "u1", tier: "basic" } };

const make = (entry: string, more: Partial<Parameters<typeof defineAction>[1]> = {}): Action =>
  defineAction("file", {
    entry,
    description: `${entry}.`,
    effect: "read",
    input: z.object({}),
    tags: ["file"],
    run: () => null,
    ...more,
  });

const read = make("read");
const remove = make("delete", { effect: "write", tags: ["file", "destructive"] });

const registry = createToolRegistry();
registry.register({
  name: "imap_search",
  description: "Search the mailbox.",
  inputSchema: { type: "object" },
  handler: () => null,
  scope: "specialist",
  justification: "Only the mail actor holds the connection.",
  effect: "read",
});
const specialist = (registry.provider.list() as readonly Action[])[0] as Action;

/** What the policy says, as `kind` or `kind hidden`, with the layer. */
function said(
  options: PolicyOptions,
  action: Action,
  who: Partial<Caller> = {},
  more: { args?: object; usage?: Map<string, never> } = {},
) {
  const decision = decide(compilePolicy(options), { action, caller: { ...caller, ...who }, ...(more as object) });
  if (decision.kind === "allow") return "allow";
  return `${decision.hidden ? "hidden" : decision.kind} by ${decision.objection.layer}: ${decision.objection.rule}`;
}

const args = {};

describe("each layer", () => {
  const actors = [
    { name: "default", tools: ["*"] },
    { name: "reader", tools: ["file__read", "web__*"] },
    { name: "admin", tools: ["*"], scope: "admin" },
    { name: "mail", tools: ["imap_search"] },
  ];
  const noDestruction = { name: "no-destruction", rule: "actor.scope != 'admin' && 'destructive' in tool.tags" };

  test.each<[string, PolicyOptions, Action, Partial<Caller>, object, string]>([
    ["nothing configured", {}, remove, {}, { args }, "allow"],
    ["denied", { tools: { denied: ["file__delete"] } }, remove, {}, {}, "hidden by tool-policy: denied: file__delete"],
    [
      "denied wins over allowed",
      { tools: { allowed: ["*"], denied: ["file__*"] } },
      read,
      {},
      {},
      "hidden by tool-policy: denied: file__*",
    ],
    ["not allowed", { tools: { allowed: ["web__*"] } }, read, {}, {}, "hidden by tool-policy: not in allowed"],
    ["allowed", { tools: { allowed: ["file__r*"] } }, read, {}, {}, "allow"],
    ["allowed by tag", { tools: { allowed: ["tag:file"] } }, read, {}, {}, "allow"],
    [
      "denied by tag",
      { tools: { allowed: ["*"], denied: ["tag:destructive"] } },
      remove,
      {},
      {},
      "hidden by tool-policy: denied: tag:destructive",
    ],
    [
      "a tag of a gate",
      { gates: [{ name: "changes", guards: "tag:destructive", shut: () => "closed" }] },
      remove,
      {},
      {},
      "hidden by gates: changes: closed",
    ],
    [
      "a tag of a world",
      { worlds: [{ name: "w", actions: ["tag:destructive"] }] },
      remove,
      {},
      {},
      "hidden by world: it belongs to the world w; actor default is in none",
    ],
    ["a tag of an actor", { actors: [{ name: "default", tools: ["tag:file"] }] }, read, {}, {}, "allow"],
    [
      "a tag never opens a specialist",
      { actors: [{ name: "default", tools: ["tag:mail"] }] },
      { ...specialist, tags: ["mail"] },
      {},
      {},
      "hidden by actor: a specialist tool is seen only by the actor that lists it by name",
    ],
    ["nothing allowed", { tools: { allowed: [] } }, read, {}, {}, "hidden by tool-policy: not in allowed"],
    [
      "required tag missing",
      { tools: { requireTags: ["file", "safe"] } },
      read,
      {},
      {},
      "hidden by tool-policy: require_tags: safe",
    ],
    [
      "gate shut",
      { gates: [{ name: "sandbox", guards: "file__*", shut: () => "no sandbox" }] },
      read,
      {},
      {},
      "hidden by gates: sandbox: no sandbox",
    ],
    [
      "gate that fails",
      {
        gates: [
          {
            name: "sandbox",
            guards: "file__*",
            shut: () => {
              throw new Error("no answer");
            },
          },
        ],
      },
      read,
      {},
      {},
      "hidden by gates: sandbox: it could not be checked: no answer",
    ],
    ["gate open", { gates: [{ name: "sandbox", guards: "file__*", shut: () => undefined }] }, read, {}, {}, "allow"],
    [
      "rule hides",
      { rules: [{ ...noDestruction, effect: "hide" }] },
      remove,
      {},
      {},
      "hidden by tag-rules: no-destruction",
    ],
    [
      "rule denies",
      { rules: [{ ...noDestruction, effect: "deny" }] },
      remove,
      {},
      {},
      "deny by tag-rules: no-destruction",
    ],
    ["rule asks", { rules: [{ ...noDestruction, effect: "ask" }] }, remove, {}, {}, "ask by tag-rules: no-destruction"],
    ["rule does not concern it", { rules: [{ ...noDestruction, effect: "hide" }] }, read, {}, {}, "allow"],
    [
      "rule does not concern the actor",
      { actors, rules: [{ ...noDestruction, effect: "hide" }] },
      remove,
      { actor: "admin" },
      {},
      "allow",
    ],
    [
      "the strongest rule wins",
      {
        rules: [
          { ...noDestruction, effect: "ask" },
          { ...noDestruction, name: "b", effect: "deny" },
        ],
      },
      remove,
      {},
      {},
      "deny by tag-rules: b",
    ],
    [
      "a rule about args waits for them",
      { rules: [{ name: "big", rule: "args.size > 3", effect: "deny" }] },
      read,
      {},
      {},
      "allow",
    ],
    [
      "a rule about args, which it has",
      { rules: [{ name: "big", rule: "args.size > 3", effect: "deny" }] },
      read,
      {},
      { args: { size: 4 } },
      "deny by tag-rules: big",
    ],
    [
      "a failing rule counts as true",
      { rules: [{ name: "big", rule: "args.size > 3", effect: "deny" }] },
      read,
      {},
      { args: {} },
      'deny by tag-rules: big (counted as true: expression "args.size > 3": No such key: size)',
    ],
    [
      "a failing hide rule hides",
      { rules: [{ name: "t", rule: "ctx.user.plan == 'free'", effect: "hide" }] },
      read,
      {},
      {},
      "hidden by tag-rules: t (counted as true: expression \"ctx.user.plan == 'free'\": No such key: plan)",
    ],
    ["visibility keeps", { visibility: { visibleTools: (actions) => actions } }, read, {}, {}, "allow"],
    [
      "visibility removes",
      { visibility: { visibleTools: () => [] } },
      read,
      {},
      {},
      "hidden by visibility: not among the visible tools",
    ],
    [
      "visibility by tenant",
      { visibility: { visibleTools: (actions, who) => (who.tenant === "acme" ? actions : []) } },
      read,
      { tenant: "other" },
      {},
      "hidden by visibility: not among the visible tools",
    ],
    [
      "visibility cannot add",
      { tools: { denied: ["*"] }, visibility: { visibleTools: (actions) => actions } },
      read,
      {},
      {},
      "hidden by tool-policy: denied: *",
    ],
    [
      "a throwing visibility hides",
      {
        visibility: {
          visibleTools: () => {
            throw new Error("flags down");
          },
        },
      },
      read,
      {},
      {},
      "hidden by visibility: the visibility policy failed: flags down",
    ],
    ["actor lists it", { actors }, read, { actor: "reader" }, {}, "allow"],
    [
      "actor does not list it",
      { actors },
      remove,
      { actor: "reader" },
      {},
      "hidden by actor: not among the tools of actor reader",
    ],
    ["no such actor", { actors }, read, { actor: "nobody" }, {}, 'hidden by actor: no actor "nobody" is configured'],
    ["a specialist's owner", { actors }, specialist, { actor: "mail" }, {}, "allow"],
    [
      "a specialist and a glob",
      { actors },
      specialist,
      { actor: "admin" },
      {},
      "hidden by actor: a specialist tool is seen only by the actor that lists it by name",
    ],
    [
      "budget of calls",
      { budgets: { session: { calls: 2 } } },
      read,
      {},
      { args, usage: new Map([['session:"s1"', { calls: 2, ms: 0, bytes: 0 }]]) },
      "deny by budget: session.calls: 2",
    ],
    [
      "budget of time",
      { budgets: { tenant: { ms: 5 } } },
      read,
      {},
      { args, usage: new Map([['tenant:"acme"', { calls: 0, ms: 6, bytes: 0 }]]) },
      "deny by budget: tenant.ms: 5",
    ],
    [
      "budget of bytes",
      { budgets: { turn: { bytes: 5 } } },
      read,
      { turn: "t1" },
      { args, usage: new Map([['turn:["s1","t1"]', { calls: 0, ms: 0, bytes: 9 }]]) },
      "deny by budget: turn.bytes: 5",
    ],
    [
      "budget of an actor",
      { actors: [{ name: "default", tools: ["*"], budgets: { session: { calls: 2 } } }] },
      read,
      {},
      { args, usage: new Map([['session:["default","s1"]', { calls: 2, ms: 0, bytes: 0 }]]) },
      "deny by budget: actors.default.budgets.session.calls: 2",
    ],
    [
      "budget left",
      { budgets: { session: { calls: 3 } } },
      read,
      {},
      { args, usage: new Map([['session:"s1"', { calls: 2, ms: 0, bytes: 0 }]]) },
      "allow",
    ],
    [
      "approval",
      {},
      make("pay", { requiresApproval: true }),
      {},
      { args },
      "ask by approval: requires approval [user]",
    ],
    [
      "approval that is always wanted is known beforehand",
      {},
      make("pay", { requiresApproval: true }),
      {},
      {},
      "ask by approval: requires approval [user]",
    ],
    [
      "auto-approved",
      {},
      make("pay", { requiresApproval: { autoApproveIf: "args.cost < 50 && ctx.user.tier == 'basic'" } }),
      {},
      { args: { cost: 20 } },
      "allow",
    ],
    [
      "not auto-approved",
      {},
      make("pay", { requiresApproval: { autoApproveIf: "args.cost < 50", level: "admin" } }),
      {},
      { args: { cost: 70 } },
      "ask by approval: not (args.cost < 50) [admin]",
    ],
    [
      "a failing approval rule asks",
      {},
      make("pay", { requiresApproval: { autoApproveIf: "args.cost < 50" } }),
      {},
      { args: {} },
      expect.stringMatching(/^ask by approval: its approval rule failed/) as never,
    ],
    ["an approval function", {}, make("pay", { requiresApproval: () => "auto" }), {}, { args }, "allow"],
    [
      "a throwing approval function asks",
      {},
      make("pay", {
        requiresApproval: () => {
          throw new Error("x");
        },
      }),
      {},
      { args },
      "ask by approval: its approval rule failed: x [admin]",
    ],
    [
      "deny is stronger than ask",
      { rules: [{ name: "r", rule: "true", effect: "ask" }], budgets: { session: { calls: 1 } } },
      read,
      {},
      { args, usage: new Map([['session:"s1"', { calls: 1, ms: 0, bytes: 0 }]]) },
      "deny by budget: session.calls: 1",
    ],
  ])("%s", (_name, options, action, who, more, expected) => {
    expect(said(options, action, who, more as never)).toEqual(expected);
  });
});

describe("a resource and its operation", () => {
  const corpus = { ...read, canonical: { target: remove.name, transform: {} } } as Action;

  test("must both be allowed", () => {
    const policy = compilePolicy({ tools: { denied: ["file__delete"] } });

    expect(decide(policy, { action: corpus, target: remove, caller })).toMatchObject({
      hidden: true,
      objection: { rule: "file__delete, which it runs: denied: file__delete" },
    });
  });
});

describe("an invalid policy is refused when it is compiled", () => {
  test.each<[string, PolicyOptions, RegExp]>([
    ["bad CEL", { rules: [{ rule: "tool.tags.", effect: "hide" }] }, /expression "tool.tags."/],
    ["an unknown variable", { rules: [{ rule: "user.tier == 1", effect: "hide" }] }, /Unknown variable: user/],
    ["hiding by arguments", { rules: [{ rule: "args.x == 1", effect: "hide" }] }, /hides by args/],
  ])("%s", (_name, options, message) => {
    expect(() => compilePolicy(options)).toThrow(message);
  });

  test("changes its version with its options", () => {
    const version = (options: PolicyOptions) => compilePolicy(options).version;

    expect(version({ tools: { denied: ["a"] } })).toBe(version({ tools: { denied: ["a"] } }));
    expect(version({ tools: { denied: ["a"] } })).not.toBe(version({ tools: { denied: ["b"] } }));
  });

  test("changes its version with what an actor may do, and not with how its model works", () => {
    const version = (more: Partial<ActorConfig>) =>
      compilePolicy({ actors: [{ name: "a", tools: [], ...more }] }).version;

    expect(version({ model: "m", instructions: "Be brief.", tier: "light", maxSteps: 3 })).toBe(version({}));
    expect(version({ budgets: { turn: { calls: 1 } } })).not.toBe(version({}));
    expect(version({ tools: ["tag:x"] })).not.toBe(version({}));
  });
});

describe("actors", () => {
  const start = (tools: Record<string, string[]>, name = "a") => {
    const { actors } = compilePolicy({
      actors: Object.entries(tools).map(([actor, list]) => ({ name: actor, tools: list })),
    });
    const catalog = { actions: [read, remove, specialist], pending: [{ prefix: "mcp__memory__" }] };
    const problems = findActorProblems(actors.get(name) ?? expect.fail(), [...actors.values()], catalog);
    return problems.map(({ details }) => details);
  };

  test("may list names, bare tool names and globs", () => {
    expect(start({ a: ["file__read", "imap_search", "web__*"] })).toEqual([]);
  });

  test("may list names of a source whose actions are not known yet", () => {
    expect(start({ a: ["mcp__memory__read_graph"] })).toEqual([]);
    expect(start({ a: ["mcp__memo__read_graph"] })).toHaveLength(1);
  });

  test("do not start with an unknown name, while others do", () => {
    const tools = { a: ["file__raed", "nonsense"], b: ["file__read"] };

    expect(start(tools)).toEqual([
      'actor a lists "file__raed", which does not exist; did you mean file__read?',
      'actor a lists "nonsense", which does not exist',
    ]);
    expect(start(tools, "b")).toEqual([]);
  });

  test("cannot share a specialist tool", () => {
    const actors = [
      { name: "a", tools: ["imap_search"] },
      { name: "b", tools: ["tool__imap_search"] },
    ];

    expect(start({ a: ["imap_search"], b: ["tool__imap_search"] })).toEqual([
      "specialist tool__imap_search is listed by a and b; it can belong to one actor only",
    ]);
    for (const { name } of actors)
      expect(said({ actors }, specialist, { actor: name })).toMatch(/^hidden by actor: it is listed by a and b/);
  });
});

describe("explain", () => {
  const known = {
    actions: [read, remove],
    pending: [{ name: "every", prefix: "mcp__every__" }],
    get: (name: string) => [read, remove].find((action) => action.name === name),
  };

  test("names the layer and the rule", () => {
    const policy = compilePolicy({
      rules: [{ name: "no-destruction", rule: "'destructive' in tool.tags", effect: "hide" }],
    });

    expect(explain(policy, known, "file__delete", caller)).toMatchObject({
      exists: true,
      visible: false,
      because: { layer: "tag-rules", rule: "no-destruction" },
    });
    expect(explain(policy, known, "file__read", caller)).toMatchObject({ visible: true, decision: "allow" });
    expect(explain(policy, known, "file__raed", caller)).toMatchObject({ exists: false, nearest: "file__read" });
    expect(explain(policy, known, "mcp__every__sum", caller)).toMatchObject({ exists: false, pending: "every" });
  });

  test.each([
    [{ denied: ["file__*"] }, { list: "denied", entry: "file__*" }],
    [{ allowed: ["mail__*"] }, { list: "allowed" }],
    [{ requireTags: ["safe"] }, { list: "requireTags", entry: "safe" }],
  ])("names the list and the entry of the tool policy: %j", (tools, facts) => {
    const { because, layers } = explain(compilePolicy({ tools }), known, "file__read", caller);

    expect(because).toMatchObject(facts);
    expect(layers[0]).toMatchObject({ says: "hide", ...facts });
  });

  test("lists the objection of every layer", () => {
    const policy = compilePolicy({ tools: { denied: ["*"] }, actors: [] });

    expect(
      listObjections(policy, { action: read, caller })
        .filter(({ objection }) => objection)
        .map(({ layer }) => layer),
    ).toEqual(["tool-policy", "actor"]);
  });
});

test.each<[string, boolean, PolicyOptions, Partial<Action>]>([
  ["no rule", true, {}, {}],
  ["a rule about the actor", true, { rules: [{ rule: "actor.scope == 'admin'", effect: "hide" }] }, {}],
  ["a rule about the caller", false, { rules: [{ rule: "ctx.tenant == 'acme'", effect: "hide" }] }, {}],
  [
    "one about the caller and others",
    true,
    { rules: [{ rule: "ctx.hops > 1 && 'x' in tool.tags", effect: "hide" }] },
    {},
  ],
  ["one about the call", true, { rules: [{ rule: "ctx.tenant == args.tenant", effect: "deny" }] }, {}],
  ["a visibility policy", false, { visibility: { visibleTools: (actions) => actions } }, {}],
  ["a gate", false, { gates: [{ name: "g", guards: "file__*", shut: () => undefined }] }, {}],
  ["another gate", true, { gates: [{ name: "g", guards: "web__*", shut: () => undefined }] }, {}],
  ["an owner", false, {}, { owner: { session: "s1" } }],
  ["an acceptance", false, {}, { isAccepted: () => true }],
])("with %s, all callers of an actor have the same access: %j", (_, expected, options, more) => {
  expect(hasSharedAccess(compilePolicy(options), { ...read, ...more })).toBe(expected);
});
