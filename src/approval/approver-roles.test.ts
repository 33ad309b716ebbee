import { expect, test } from "vitest";
import { checkApprovalRights, listAllRoles, listLevelRoles } from "./approver-roles.ts";

const settings = { levels: { money: { roles: ["treasurer"] } } };

test.each([
  ["user", ["user", "approver", "admin"]],
  ["admin", ["admin"]],
  ["money", ["treasurer"]],
  ["ops", ["admin", "ops"]],
])("the roles at %s are %j", (level, roles) => {
  expect(listLevelRoles(settings, level).toSorted()).toEqual(roles.toSorted());
});

test("a redefined level has only the roles it names", () => {
  expect(listLevelRoles({ levels: { user: { roles: ["clerk"] } } }, "user")).toEqual(["clerk"]);
  expect(listAllRoles(settings)).toEqual(["user", "approver", "admin", "treasurer"]);
});

test("says why a person may not answer: the role, or their own call", () => {
  const asked = { level: "money", actor: "a", session: "s", user: "eve", person: "ann" };
  const could = (id: string, roles: readonly string[], decision: "approved" | "denied" = "approved") =>
    checkApprovalRights(settings, asked, { id, roles }, decision);

  expect(could("bob", ["treasurer"])).toBeUndefined();
  expect(could("bob", ["admin"])).toContain("treasurer");
  for (const own of ["eve", "ann"]) {
    expect(could(own, ["treasurer"])).toContain("the one it was asked for");
    expect(could(own, ["treasurer"], "denied")).toBeUndefined();
  }
});
