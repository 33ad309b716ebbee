import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineAction } from "../catalog/define-action.ts";
import type { ApprovalBinding } from "./approval-request.ts";
import { hashBinding } from "./approval-request.ts";

const make = (entry: string, description = "Pay.") =>
  defineAction("bank", { entry, description, effect: "external", input: z.object({ a: z.number() }), run: () => 1 });

const bound: ApprovalBinding = {
  action: make("pay"),
  target: make("transfer"),
  args: { a: 1, b: { c: 2, d: 3 } },
  caller: { actor: "clerk", session: "s", tenant: "t", user: { id: "u", tier: "gold" }, person: "p" },
  policyVersion: "1",
};

describe("a binding", () => {
  test("is the same for the same call in any spelling and turn", () => {
    expect(hashBinding({ ...bound, args: { b: { d: 3, c: 2 }, a: 1 } })).toBe(hashBinding(bound));
    expect(hashBinding({ ...bound, caller: { ...bound.caller, turn: "7" } })).toBe(hashBinding(bound));
  });

  test("is the same for a client in another session", () => {
    const caller = { ...bound.caller, client: "c" };
    const reconnected = { ...bound, caller: { ...caller, session: "s2" } };
    expect(hashBinding(reconnected)).toBe(hashBinding({ ...bound, caller }));
    expect(hashBinding({ ...reconnected, caller: { ...caller, client: "d" } })).not.toBe(hashBinding(reconnected));
    expect(hashBinding(reconnected)).not.toBe(hashBinding(bound));
  });

  test.each<readonly [string, Partial<ApprovalBinding>]>([
    ["action", { action: make("send") }],
    ["definition", { action: make("pay", "Pay twice.") }],
    ["operation", { target: make("transfer", "Transfer twice.") }],
    ["operation at all", { target: undefined }],
    ["arguments", { args: { a: 1, b: { c: 2, d: 4 } } }],
    ["actor", { caller: { ...bound.caller, actor: "boss" } }],
    ["session", { caller: { ...bound.caller, session: "s2" } }],
    ["tenant", { caller: { ...bound.caller, tenant: "t2" } }],
    ["user", { caller: { ...bound.caller, user: { id: "u2", tier: "gold" } } }],
    ["user's facts", { caller: { ...bound.caller, user: { id: "u", tier: "tin" } } }],
    ["person", { caller: { ...bound.caller, person: "p2" } }],
    ["policy", { policyVersion: "2" }],
  ])("differs for another %s", (_, other) => {
    expect(hashBinding({ ...bound, ...other })).not.toBe(hashBinding(bound));
  });
});
