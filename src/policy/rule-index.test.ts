import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { defineAction } from "../catalog/define-action.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { WORK_LIMIT } from "../core/work-budget.ts";
import { toToolFacts } from "./call-facts.ts";
import { decide } from "./decide.ts";
import { explain } from "./explain.ts";
import { compilePolicy, type Policy } from "./policy.ts";
import { createRuleIndex } from "./rule-index.ts";
import { type CompiledTagRule, compileTagRule, type TagRule } from "./tag-rules.ts";

const make = (category: string, entry: string, more: Partial<Parameters<typeof defineAction>[1]> = {}): Action =>
  defineAction(category, { entry, description: `${entry}.`, effect: "read", input: {}, run: () => null, ...more });

const actions = [
  make("file", "read", { tags: ["file"] }),
  make("file", "delete", { effect: "write", tags: ["file", "destructive"] }),
  make("mail", "send", { effect: "external", idempotent: true }),
  make("mail", "read", { tags: ["beta"] }),
  make("mail", "list", { tags: ["file"] }),
];
const callers: readonly Caller[] = [
  { actor: "default", session: "s1" },
  { actor: "default", session: "s2", tenant: "acme", user: { id: "u1", tier: "basic" } },
  { actor: "admin", session: "s1", tenant: "acme", hops: 2 },
  { actor: "mailer", session: "s3", person: "p" },
  { actor: "unknown", session: "s3" },
];
const policyOptions = {
  worlds: [{ name: "post", actions: ["mail__*"] }],
  actors: [
    { name: "default", tools: ["*"] },
    { name: "admin", tools: ["*"], scope: "admin", world: "post" },
    { name: "mailer", tools: ["mail__*", "file__read"], attributes: { level: 3, areas: ["a", "file"] }, world: "post" },
  ],
};

const someAtom = fc.constantFrom(
  ...["true", "false", "tool.missing == 1", "tool.idempotent", "tool.name", "args.yes"],
  ...["'file' in tool.tags", "tool.effect == 'read'", "tool.category == 'mail'", "tool.name == 'file__delete'"],
  ...["tool.entry.startsWith('re')", "tool.world == 'post'", "'world' in tool", "size(tool) > 3", "tool == args"],
  ...["has(tool.world)", "has(tool.name)", "tool.tags.exists(t, t == 'beta')", "tool.tags.all(t, t in actor.areas)"],
  ...["tool.tags.all(t, t == 'file' || args.yes)", "['a', 'b'].exists(x, x == args.name || tool.effect == 'write')"],
  ...[
    "tool.tags.exists_one(t, t == 'file')",
    "['read'].exists(args, args == tool.entry)",
    "tool.tags.includes('file')",
  ],
  ...["actor.scope == 'admin'", "actor.level > 2", "ctx.tenant == 'acme'", "ctx.user.tier == 'basic'", "ctx.hops > 1"],
  ...["ctx.session == 's1'", "size(ctx) > 2", "ctx.tenant == tool.category", "'amount' in args", "has(args.amount)"],
  ...[
    "args.amount > 10",
    "args.yes == true",
    "args.list.exists(i, i > 2)",
    "'x' in args.list",
    "cel.bind(n, args.amount, n > 1)",
  ],
);
const { condition: someCondition } = fc.letrec<{ condition: string }>((tie) => ({
  condition: fc.oneof(
    { maxDepth: 4, depthSize: "medium" },
    someAtom,
    fc.tuple(tie("condition"), tie("condition")).map(([a, b]) => `(${a} && ${b})`),
    fc.tuple(tie("condition"), tie("condition")).map(([a, b]) => `(${a} || ${b})`),
    tie("condition").map((a) => `!(${a})`),
    fc.tuple(tie("condition"), tie("condition"), tie("condition")).map(([a, b, c]) => `(${a} ? ${b} : ${c})`),
  ),
}));
const someRule: fc.Arbitrary<TagRule> = fc
  .record({ rule: someCondition, effect: fc.constantFrom("hide", "deny", "ask") })
  .map(({ rule, effect }) => ({ rule, effect: effect === "hide" && rule.includes("args") ? "deny" : effect }));
const someArgs = fc.option(
  fc.record(
    {
      amount: fc.constantFrom(1, 50, "many"),
      yes: fc.constantFrom(true, 5),
      list: fc.constant([1, 3]),
      name: fc.constant("a"),
    },
    { requiredKeys: [] },
  ),
  { nil: undefined },
);

/** The policy with nothing settled: each decision evaluates every rule. */
const toPlainPolicy = (policy: Policy): Policy => ({
  ...policy,
  ruleIndex: {
    ...policy.ruleIndex,
    findRules: () => policy.rules.map((rule) => ({ rule: { ...rule, requiredArgs: [] }, isSettled: false })),
  },
});

function compiles(rules: readonly TagRule[]): boolean {
  try {
    compilePolicy({ rules });
    return true;
  } catch {
    return false;
  }
}

test("decides and explains as the evaluation of every rule does", () => {
  const someRules = fc.array(someRule, { minLength: 1, maxLength: 5 }).filter(compiles);
  const answers = new Set<string>();
  fc.assert(
    fc.property(someRules, fc.array(someArgs, { minLength: 1, maxLength: 3 }), (rules, calls) => {
      const policy = compilePolicy({ ...policyOptions, rules });
      const plain = toPlainPolicy(policy);
      for (const action of actions) {
        for (const caller of callers) {
          for (const args of calls) {
            const question = { action, caller, ...(args === undefined ? {} : { args }) };
            const decision = decide(policy, question);
            expect(decision).toEqual(decide(plain, question));
            answers.add(decision.kind);
          }
          const known = { actions, pending: [], get: () => action };
          expect(explain(policy, known, action.name, caller)).toEqual(explain(plain, known, action.name, caller));
        }
      }
    }),
    { numRuns: 300 },
  );
  expect([...answers].sort()).toEqual(["allow", "ask", "deny"]);
});

/** A rule that counts how often it is evaluated. */
function countEvaluations(options: TagRule) {
  const rule = compileTagRule(options);
  const { answer, holds } = rule.condition;
  const condition = { ...rule.condition, answer: vi.fn(answer), holds: vi.fn(holds) };
  const counted: CompiledTagRule = { ...rule, condition };
  return { condition, index: createRuleIndex([counted]) };
}

const many = Array.from({ length: 50 }, (_, index) => make("file", `read_${index}`, { tags: ["file"] }));

test("evaluates a rule about tags once for all actions with the same tags", () => {
  const { condition, index } = countEvaluations({ rule: "ctx.tenant == 'x' && 'mail' in tool.tags", effect: "deny" });

  for (const action of [...many, ...many]) expect(index.findRules(action)).toEqual([]);

  expect(condition.answer).toHaveBeenCalledTimes(1);
});

test.each([
  ["names", "tool.name == 'file__read_3'"],
  ["entries", "tool.entry == 'read_3'"],
  ["whole actions", "[tool].exists(t, t.name == 'file__read_3')"],
])("evaluates a rule about %s once for each action", (_, rule) => {
  const { condition, index } = countEvaluations({ rule, effect: "deny" });

  const found = [...many, ...many].flatMap((action) => index.findRules(action));

  expect(found.map(({ isSettled }) => isSettled)).toEqual([true, true]);
  expect(condition.answer).toHaveBeenCalledTimes(1 + many.length);
});

test("tells actions apart by each of their facts", () => {
  const action = make("file", "read");
  const changes: Readonly<Record<string, Partial<Action>>> = {
    category: { category: "mail" },
    effect: { effect: "write" },
    tags: { tags: ["x"] },
    scope: { scope: "specialist" },
    routing: { routing: "bypass" },
    idempotent: { idempotent: !action.idempotent },
    peer_exposed: { peerExposed: !action.peerExposed },
  };

  expect(Object.keys(toToolFacts(action)).sort()).toEqual([...Object.keys(changes), "entry", "name", "world"].sort());
  for (const [fact, change] of Object.entries(changes)) {
    const own = JSON.stringify(toToolFacts(action)[fact]);
    const index = createRuleIndex([compileTagRule({ rule: `tool.${fact} == ${own}`, effect: "deny" })]);
    expect([fact, index.findRules(action).length]).toEqual([fact, 1]);
    expect([fact, index.findRules({ ...action, ...change }).length]).toEqual([fact, 0]);
  }
});

test("does not evaluate a rule about arguments that the call does not have", () => {
  const policy = compilePolicy({
    rules: [{ rule: "'amount' in args && args.l.all(a, args.l.all(b, args.l.all(c, true)))", effect: "deny" }],
  });
  const [action = make("file", "read")] = actions;
  const l = Array.from({ length: 400 }, (_, index) => index);

  const decideWith = (args: { readonly [key: string]: typeof l | number }) =>
    decide(policy, { action, caller: { actor: "default", session: "s" }, args });

  expect(decideWith({ l }).kind).toBe("allow");
  expect(decideWith({ l, amount: 1 })).toMatchObject({ kind: "deny", objection: { unevaluated: true } });
});

test("leaves a rule that needs much work to the decision, where it counts as true at the limit", () => {
  const loop = "tool.tags.all(a, tool.tags.all(b, tool.tags.all(c, a + b + c != '')))";
  const policy = compilePolicy({ rules: [{ rule: `${loop} && false`, effect: "deny" }] });
  const action = make("file", "tagged", { tags: Array.from({ length: 200 }, (_, index) => `t${index}`) });
  const caller = { actor: "default", session: "s" };

  expect(WORK_LIMIT).toBeLessThan(200 ** 3);
  for (const _ of [1, 2])
    expect(decide(policy, { action, caller })).toMatchObject({ kind: "deny", objection: { unevaluated: true } });
});

test("gives callers the same key if no rule can tell them apart", () => {
  const toKey = (rule: string, caller: Caller) =>
    createRuleIndex([compileTagRule({ rule, effect: "deny" })]).toCallerKey(caller);
  const [one, other] = [
    { actor: "a", session: "s1", tenant: "acme" },
    { actor: "a", session: "s2", tenant: "globex" },
  ];

  for (const [rule, isSame] of [
    ["actor.scope == 'x'", true],
    ["ctx.user.id == 'x'", true],
    ["ctx.tenant == 'x' && 'n' in args", true],
    ["ctx.tenant == 'x'", false],
    ["ctx.session == 'x'", false],
    ["ctx['session'] == 'x'", false],
    ["size(ctx) > 2", false],
    ["has(ctx.tenant)", false],
    ["['tenant'].exists(k, ctx[k] == 'x')", false],
  ] as const)
    expect([rule, toKey(rule, one) === toKey(rule, other)]).toEqual([rule, isSame]);
  expect(toKey("true", one)).not.toBe(toKey("true", { ...one, actor: "b" }));
});
