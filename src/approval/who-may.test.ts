import { expect, test } from "vitest";
import { objectionTo, rolesAt, rolesOfLevels } from "./who-may.ts";

const settings = { levels: { money: { roles: ["treasurer"] } } };

test.each([
  ["user", ["user", "approver", "admin"]],
  ["admin", ["admin"]],
  ["money", ["treasurer"]],
  ["ops", ["admin", "ops"]],
])("the roles at %s are %j", (level, roles) => {
  expect(rolesAt(settings, level).toSorted()).toEqual(roles.toSorted());
});

test("a level that is defined anew has only the roles it names", () => {
  expect(rolesAt({ levels: { user: { roles: ["clerk"] } } }, "user")).toEqual(["clerk"]);
  expect(rolesOfLevels(settings)).toEqual(["user", "approver", "admin", "treasurer"]);
});

test("somebody objects to is told why: the role, or that it is their own", () => {
  const asked = { level: "money", actor: "a", session: "s", user: "eve", person: "ann" };
  const could = (id: string, roles: readonly string[], decision: "approved" | "denied" = "approved") =>
    objectionTo(settings, asked, { id, roles }, decision);

  expect(could("bob", ["treasurer"])).toBeUndefined();
  expect(could("bob", ["admin"])).toContain("treasurer");
  for (const own of ["eve", "ann"]) {
    expect(could(own, ["treasurer"])).toContain("the one it was asked for");
    expect(could(own, ["treasurer"], "denied")).toBeUndefined();
  }
});
