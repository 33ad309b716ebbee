import { describe, expect, test } from "vitest";
import { findLooserSettings } from "./looser-settings.ts";
import { parseConfig } from "./parse.ts";

const configOf = (value: object) => parseConfig(Buffer.from(JSON.stringify(value)), "/app/quartermaster.yaml").config;
const looser = (before: object, after: object) => findLooserSettings(configOf(before), configOf(after));

const rule = (more: object = {}) => ({ policy: { rules: [{ name: "r", rule: "true", effect: "deny", ...more }] } });
const gate = (more: object = {}) => ({ policy: { gates: { g: { guards: ["a__b"], ...more } } } });
const server = (more: object = {}) => ({ servers: { s: { command: "x", ...more } } });
const tool = (more: object = {}) => server({ tools: { t: more } });
const web = (more: object = {}) => ({ providers: { web: { enabled: true, ...more } } });
const exec = (more: object = {}) => ({ providers: { exec: { enabled: true, ...more } } });
const world = (actions: readonly string[]) => ({ worlds: { w: { actions } } });
const category = (value: unknown) => ({ approvals: { categories: { file: value } } });

test.each<[object, object, string]>([
  [{ policy: { denied: ["a__b"] } }, {}, 'policy.denied no longer lists "a__b"'],
  [{ policy: { allowed: ["a__b"] } }, {}, "policy.allowed is gone, so every action is allowed"],
  [{ policy: { allowed: ["a__b"] } }, { policy: { allowed: ["a__b", "*"] } }, 'policy.allowed also lists "*"'],
  [{ policy: { require_tags: ["t"] } }, {}, 'policy.require_tags no longer lists "t"'],
  [gate(), {}, "policy.gates.g is gone"],
  [gate(), gate({ open: true }), "policy.gates.g is open"],
  [gate({ guards: ["a__b", "c__*"] }), gate(), 'policy.gates.g.guards no longer lists "c__*"'],
  [rule(), {}, 'the rule "r" (deny) is gone'],
  [rule(), rule({ effect: "ask" }), 'the rule "r" has the effect ask instead of deny'],
  [rule(), rule({ rule: "false" }), 'the rule "r" has another condition'],
  [
    rule({ effect: "ask", level: "admin" }),
    rule({ effect: "ask" }),
    'the rule "r" asks the level "user" instead of "admin"',
  ],
  [{ policy: { budgets: { turn: { ms: 5 } } } }, {}, "policy.budgets.turn.ms is gone, so there is no limit"],
  [
    { policy: { budgets: { tenant: { cost: 5, tokens: 10 } } } },
    { policy: { budgets: { tenant: { cost: 6, tokens: 10 } } } },
    "policy.budgets.tenant.cost rose from 5 to 6",
  ],
  [{ actors: { default: { tools: [] } } }, {}, 'actors.default.tools also lists "*"'],
  [
    { actors: { a: { tools: [], budgets: { session: { calls: 5 } } } } },
    { actors: { a: { tools: [] } } },
    "actors.a.budgets.session.calls is gone, so there is no limit",
  ],
  [
    { actors: { a: { tools: ["tag:x"] } }, ...tool() },
    { actors: { a: { tools: ["tag:x"] } }, ...tool({ tags: ["x", "y"] }) },
    'servers.s.tools.t.tags also lists "x"',
  ],
  [{}, { actors: { a: { tools: [] } } }, "actors.a is new"],
  [
    { actors: { a: { tools: [] } } },
    { actors: { a: { tools: [], exposed: true } } },
    "actors.a.exposed lets other agents call it",
  ],
  [
    { actors: { a: { tools: [], scope: "x" } } },
    { actors: { a: { tools: [], scope: "admin" } } },
    "actors.a has another scope or other attributes, which rules compare",
  ],
  [
    {},
    { providers: { memory: { enabled: true } } },
    "providers.memory.enabled adds the categories memory_operation and memory_entry",
  ],
  [
    {},
    { providers: { rag: { enabled: true } } },
    "providers.rag.enabled adds the categories rag_operation and rag_corpus",
  ],
  [world(["a__b"]), {}, "worlds.w is gone"],
  [world(["a__b"]), world([]), 'worlds.w.actions no longer lists "a__b"'],
  [
    { worlds: { w: {}, v: { actions: ["a__b"] } } },
    { worlds: { w: { actions: ["a__*"] }, v: { actions: ["a__b"] } } },
    'worlds.w.actions also lists "a__*"',
  ],
  [world([]), { ...world([]), world: "w" }, "actors.default is in the world w"],
  [
    { ...world([]), world: "w", actors: { default: { tools: ["*"], world: null } } },
    { ...world([]), world: "w" },
    "actors.default is in the world w",
  ],
  [{}, { approvals: { allow_self: true } }, "approvals.allow_self lets users approve their own calls"],
  [{ approvals: { ask_client: false } }, {}, "approvals.ask_client lets MCP clients answer"],
  [category(true), {}, "approvals.categories.file no longer asks"],
  [
    category(true),
    category({ auto_approve_if: "true" }),
    "approvals.categories.file asks only where its condition is false",
  ],
  [
    category({ auto_approve_if: "false" }),
    category({ auto_approve_if: "true" }),
    "approvals.categories.file has another condition",
  ],
  [
    { approvals: { approvers: { ada: { roles: ["approver"] } } } },
    { approvals: { approvers: { ada: { roles: ["approver", "admin"] } } } },
    'approvals.approvers.ada also has the role "admin"',
  ],
  [
    { approvals: { approvers: { ada: { roles: ["approver"] } } } },
    {},
    "approvals.approvers is empty, so everyone at this machine's command line has every role",
  ],
  [{}, { approvals: { levels: { user: { roles: ["x"] } } } }, "approvals.levels.user changes who may approve"],
  [{}, { providers: { file: { read_only: false } } }, "providers.file.read_only is off, so files can be changed"],
  [{ providers: { file: { root: "a" } } }, {}, "providers.file.root is another folder"],
  [{ providers: { file: { enabled: false } } }, {}, "providers.file.enabled adds the category file"],
  [{}, web(), "providers.web.enabled adds the category web"],
  [web(), web({ allow_hosts: ["a:1"] }), 'providers.web.allow_hosts also lists "a:1"'],
  [web(), web({ respect_robots: false }), "providers.web.respect_robots is off"],
  [exec(), exec({ unisolated: true }), "providers.exec.unisolated runs programs without a sandbox"],
  [exec(), exec({ folder: "other" }), "providers.exec.folder is another folder"],
  [exec(), exec({ max_timeout_ms: 600_001 }), "providers.exec.max_timeout_ms rose from 600000 to 600001"],
  [exec(), exec({ env: { A: "1" } }), 'providers.exec.env also lists "A"'],
  [exec({ env: { A: "1" } }), exec({ env: { A: "2" } }), "providers.exec.env.A has another value"],
  [exec(), exec({ allow_env: ["A"] }), 'providers.exec.allow_env also lists "A"'],
  [exec(), exec({ sandbox: { network: true } }), "providers.exec.sandbox.network lets programs use the network"],
  [exec(), exec({ sandbox: { read: ["a"] } }), 'providers.exec.sandbox.read also lists "a"'],
  [exec(), exec({ sandbox: { write: ["a"] } }), 'providers.exec.sandbox.write also lists "a"'],
  [exec(), exec({ sandbox: { processes: 129 } }), "providers.exec.sandbox.processes rose from 128 to 129"],
  [exec({ sandbox: { cpu_seconds: 1 } }), exec(), "providers.exec.sandbox.cpu_seconds rose from 1 to no limit"],
  [server({ sandbox: {} }), server(), "servers.s.sandbox is gone, so nothing is isolated"],
  [server({ pin: true }), server({ pin: false }), "servers.s.pin is off, so changed tools are not withheld"],
  [tool({ approval: true }), tool(), "servers.s.tools.t.approval no longer asks"],
  [tool({ enabled: false }), server(), "servers.s.tools.t is offered"],
  [tool({ effect: "external" }), tool(), "servers.s.tools.t.effect is no longer external"],
  [tool({ tags: ["x"] }), tool(), 'servers.s.tools.t.tags no longer lists "x"'],
  [tool({ arguments: { path: "file" } }), tool(), "servers.s.tools.t.arguments.path no longer has the form file"],
  [{ secrets: [`\${env:KEY}`] }, {}, `secrets no longer lists \${env:KEY}`],
])("from %j to %j: %s", (before, after, expected) => {
  expect(looser(before, after)).toEqual([expected]);
});

describe("nothing is reported", () => {
  test.each<[string, object, object]>([
    ["for the same configuration", rule(), rule()],
    ["for a new rule", {}, rule()],
    ["for a stricter rule", rule(), rule({ effect: "hide" })],
    ["for a renamed rule", rule(), rule({ name: "other" })],
    [
      "for a lower budget",
      { policy: { budgets: { turn: { calls: 5 } } } },
      { policy: { budgets: { turn: { calls: 4 } } } },
    ],
    ["for a tag that no list names", tool(), tool({ tags: ["x"] })],
    [
      "for how an actor's model works",
      { actors: { a: { tools: [] } } },
      { actors: { a: { tools: [], instructions: "Be brief.", tier: "light", max_steps: 3 } } },
    ],
    ["for an action that joins its only world", world([]), world(["a__b"])],
    ["for an actor that leaves its world", { ...world([]), world: "w" }, world([])],
    ["for a new allowlist", {}, { policy: { allowed: ["a__b"] } }],
    ["for an approval that is always asked for", category({ auto_approve_if: "true" }), category(true)],
    ["for a server that is gone", server(), {}],
  ])("%s", (_what, before, after) => {
    expect(looser(before, after)).toEqual([]);
  });
});
