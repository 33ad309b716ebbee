import { expect, test } from "vitest";
import type { Explanation } from "../../policy/explain.ts";
import { listScopeReasons, suggestPolicyChanges } from "./describe.ts";

type Said = Explanation["layers"][number];

const explained = (...layers: readonly Said[]): Explanation => ({
  action: "file__write",
  actor: "reader",
  exists: true,
  visible: false,
  decision: "deny",
  layers,
});

test.each<[Said, string]>([
  [{ layer: "tool-policy", says: "hide", list: "denied", entry: "file__*" }, 'take "file__*" out of policy.denied'],
  [{ layer: "tool-policy", says: "hide", list: "allowed" }, 'add "file__write" to policy.allowed'],
  [{ layer: "tool-policy", says: "hide", list: "requireTags", entry: "safe" }, 'no tag "safe"'],
  [{ layer: "gates", says: "hide", rule: "sandbox: none" }, "sandbox: none"],
  [{ layer: "gates", says: "hide", setting: "policy.gates.night.open" }, "set policy.gates.night.open: true"],
  [{ layer: "tag-rules", says: "deny", rule: "no-writes" }, 'the rule "no-writes" of policy.rules'],
  [{ layer: "visibility", says: "hide", rule: "host" }, "host program"],
  [{ layer: "actor", says: "hide", rule: "not among the tools of actor reader" }, "to actors.reader.tools"],
  [{ layer: "world", says: "hide", world: "a" }, "set actors.reader.world: a"],
  [{ layer: "budget", says: "deny", rule: "session.calls: 2" }, "raise policy.budgets.session.calls: 2"],
  [{ layer: "approval", says: "ask", rule: "always" }, "approval"],
])("suggests the configuration key for %o", (said, expected) => {
  expect(suggestPolicyChanges(explained(said), "/x/quartermaster.yaml").join("\n")).toContain(expected);
});

test("shows why a tool is a specialist and why it is not routed, on one line each", () => {
  expect(listScopeReasons("Only triage\nreads it.", "It is inline.")).toEqual([
    ["specialist", "Only triage reads it."],
    ["not routed", "It is inline."],
  ]);
  expect(listScopeReasons(undefined, undefined)).toEqual([]);
});

test("prints one line for each layer that objects", () => {
  const lines = suggestPolicyChanges(
    explained(
      { layer: "tool-policy", says: "hide", list: "allowed" },
      { layer: "gates", says: "nothing" },
      { layer: "actor", says: "hide", rule: "not among the tools of actor reader" },
    ),
    undefined,
  );

  expect(lines).toHaveLength(4);
  expect(lines[0]).toContain("qm init");
  expect(lines[3]).toBe("Each call is also checked against rules about arguments, budgets and approval conditions.");
});

test("does not promise that a call will be allowed", () => {
  expect(suggestPolicyChanges(explained({ layer: "tag-rules", says: "nothing" }), undefined)).toEqual([
    "No layer objects. Each call is still checked against rules about arguments, budgets and approval conditions.",
  ]);
});
