import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineAction } from "../catalog/define-action.ts";
import type { ApprovalRule } from "../core/action.ts";
import { canAsk, checkApprover, compileApprovals } from "./approval-rules.ts";
import { evaluateAccess } from "./decide.ts";
import { type Objection, pickStrongerObjection } from "./objection.ts";
import { compilePolicy, type PolicyOptions } from "./policy.ts";

const make = (category: string, requiresApproval?: ApprovalRule) =>
  defineAction(category, {
    entry: "pay",
    description: "Pay.",
    effect: "external",
    input: z.object({ sum: z.number() }),
    run: () => 1,
    ...(requiresApproval === undefined ? {} : { requiresApproval }),
  });
const caller = { actor: "default", session: "s" };

describe("without arguments", () => {
  test.each<readonly [string, ApprovalRule | undefined, PolicyOptions, string]>([
    ["nothing said", undefined, {}, "never"],
    ["always", true, {}, "always"],
    ["a condition", { autoApproveIf: "args.sum < 5.0" }, {}, "conditional"],
    ["a function", () => "user", {}, "conditional"],
    ["its category", undefined, { approvals: { categories: { bank: true } } }, "always"],
    [
      "its category, with a condition",
      undefined,
      { approvals: { categories: { bank: { autoApproveIf: "false" } } } },
      "conditional",
    ],
    ["another category", undefined, { approvals: { categories: { file: true } } }, "never"],
    ["a rule about everything", undefined, { rules: [{ rule: "true", effect: "ask" }] }, "always"],
  ])("%s", (_, rule, options, expected) => {
    const action = make("bank", rule);
    expect(evaluateAccess(compilePolicy(options), { action, caller }).approval).toBe(expected);
  });

  test("checks the operation of a resource too, and calls no rule function without arguments", () => {
    let asked = 0;
    const rule = () => {
      asked++;
      return "admin";
    };
    const question = { action: make("note"), target: make("bank", rule), caller };

    expect(evaluateAccess(compilePolicy(), question).approval).toBe("conditional");
    expect(asked).toBe(0);
  });

  test.each<readonly [string, PolicyOptions, ApprovalRule | undefined, boolean]>([
    ["nothing", {}, undefined, false],
    ["an action that never asks", {}, false, false],
    ["an action", {}, true, true],
    ["a rule", { rules: [{ rule: "false", effect: "ask" }] }, undefined, true],
    ["a rule that denies", { rules: [{ rule: "false", effect: "deny" }] }, undefined, false],
    ["a category", { approvals: { categories: { file: true } } }, undefined, true],
    ["a category that never asks", { approvals: { categories: { file: false } } }, undefined, false],
  ])("can anything ask: %s", (_, options, rule, expected) => {
    expect(canAsk(compilePolicy(options), [make("bank", rule)])).toBe(expected);
  });
});

describe("the version of a policy", () => {
  const versionOf = (approvals: PolicyOptions["approvals"] & object) => compilePolicy({ approvals }).version;

  test("depends on who must and who may approve, and on nothing else about approvals", () => {
    const plain = versionOf({});

    expect(versionOf({ categories: { file: true } })).not.toBe(plain);
    expect(versionOf({ levels: { user: { roles: ["a"] } } })).not.toBe(plain);
    expect(versionOf({ allowSelf: true })).not.toBe(plain);
    expect(versionOf({ expiresIn: "5m", maxOpen: 3, askClient: false })).toBe(plain);
  });
});

describe("checkApprover", () => {
  const asked = { level: "user", caller: { ...caller, user: { id: "uma" }, person: "pat" } };
  const may = (
    settings: object,
    level: string,
    id: string,
    role: string,
    decision: "approved" | "denied" = "approved",
  ) => checkApprover(compileApprovals(settings), { ...asked, level }, { id, roles: [role] }, decision) === undefined;

  test("follows the levels, which can be redefined", () => {
    expect([may({}, "user", "ann", "approver"), may({}, "admin", "ann", "approver")]).toEqual([true, false]);
    const levels = { user: { roles: ["boss"] } };
    expect([may({ levels }, "user", "ann", "approver"), may({ levels }, "user", "ann", "boss")]).toEqual([false, true]);
    expect(may({ levels }, "admin", "ann", "admin")).toBe(true);
  });

  test("lets users deny their own calls, but not approve them by default", () => {
    for (const self of ["uma", "pat"]) {
      expect([may({}, "user", self, "approver"), may({}, "user", self, "approver", "denied")]).toEqual([false, true]);
      expect(may({ allowSelf: true }, "user", self, "approver")).toBe(true);
    }
  });
});

describe("two objections", () => {
  const ask = (level: string, expiresInMs?: number): Objection => ({
    layer: "tag-rules",
    effect: "ask",
    rule: level,
    reason: "why",
    level,
    expiresInMs,
  });

  test.each([
    ["user", "user", "user"],
    ["user", "money", "money"],
    ["money", "user", "money"],
    ["money", "admin", "admin"],
    ["admin", "money", "admin"],
    ["money", "legal", "admin"],
  ])("%s and %s: %s must approve", (one, other, expected) => {
    expect(pickStrongerObjection(ask(one), ask(other)).level).toBe(expected);
  });

  test.each([
    [undefined, undefined, undefined],
    [5, undefined, 5],
    [undefined, 5, 5],
    [5, 3, 3],
    [3, 5, 3],
  ])("%s ms and %s ms: expires after %s ms", (one, other, expected) => {
    expect(pickStrongerObjection(ask("user", one), ask("user", other)).expiresInMs).toBe(expected);
  });
});
