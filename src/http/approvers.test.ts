import { describe, expect, test } from "vitest";
import type { Config } from "../config/schema.ts";
import { createTokenAuthorizer } from "../core/token-authorizer.ts";
import { getApproverRoles, readApproverTokens } from "./approvers.ts";

type Given = Pick<Config, "approvals" | "gateway" | "a2a">;

function configOf(approvers: object, profiles: object = {}, clients: object = {}): Given {
  return { approvals: { approvers }, gateway: { profiles }, a2a: { clients } } as unknown as Given;
}

const env: Record<string, string> = {
  ANN: "a".repeat(32),
  BOB: "b".repeat(32),
  SAME: "a".repeat(32),
  SHORT: "s".repeat(15),
};
const fill = (text: string) => {
  const value = env[text];
  if (value === undefined) throw new Error(`${text} is not set`);
  return value;
};

describe("roles", () => {
  test("are those of the configuration, and others have none", () => {
    const config = configOf({ ann: { roles: ["viewer"] } });

    expect(getApproverRoles(config, "ann")).toEqual(["viewer"]);
    for (const name of ["bob", "__proto__", "constructor", ""]) expect(getApproverRoles(config, name)).toEqual([]);
  });

  test("are all roles, if no approver is configured", () => {
    expect(getApproverRoles(configOf({}), "whoever")).toEqual(["user", "approver", "operator", "admin"]);
  });
});

describe("tokens", () => {
  const ann = { roles: ["approver"], token: "ANN" };

  test("identify approvers, and only in full", () => {
    const problems: string[] = [];
    const config = configOf({
      ann,
      bob: { roles: [], token: "BOB" },
      cem: { roles: [] },
      dot: { roles: [], token: "D" },
    });
    const find = createTokenAuthorizer(
      readApproverTokens(config, { fill, onProblem: (problem) => problems.push(problem) }),
    );

    expect(find("a".repeat(32))).toEqual({ id: "ann", roles: ["approver"] });
    expect(find("b".repeat(32))).toMatchObject({ id: "bob" });
    for (const wrong of ["", "a", "a".repeat(31), "a".repeat(33), "undefined"]) expect(find(wrong)).toBeUndefined();
    for (let at = 0; at < 5_000; at++) expect(find(String(at))).toBeUndefined();
    expect(problems).toEqual(["dot cannot answer over HTTP: D is not set"]);
  });

  test.each([
    ["of two approvers", configOf({ ann, eve: { roles: [], token: "SAME" } }), /approver ann and the approver eve/],
    ["that can be guessed", configOf({ ann, sam: { roles: [], token: "SHORT" } }), /approver sam has fewer than 16/],
    ["of a profile, too", configOf({ ann }, { default: { token: "SAME" } }), /approver ann and the profile default/],
    ["of another agent, too", configOf({ ann }, {}, { eve: { token: "SAME" } }), /approver ann and the client eve/],
  ])("%s are refused", (_whose, config, message) => {
    expect(() => readApproverTokens(config, { fill, onProblem: () => {} })).toThrow(
      expect.objectContaining({ code: "invalid_config", message: expect.stringMatching(message) }),
    );
  });

  test("of profiles that cannot be resolved are ignored", () => {
    expect(
      readApproverTokens(configOf({ ann }, { p: { token: "D" }, q: {} }), { fill, onProblem: () => {} }).size,
    ).toBe(1);
  });
});
