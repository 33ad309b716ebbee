import { expect, test } from "vitest";
import { createTokenAuthorizer } from "../../core/token-authorizer.ts";
import { readBearerToken } from "./http-endpoint.ts";
import { profileWith } from "./testing.ts";

test("a token finds its profile, and no other text does", () => {
  const one = profileWith({ name: "one" });
  const two = profileWith({ name: "two" });
  const authorize = createTokenAuthorizer([
    ["first", one],
    ["second", two],
    ["first", two],
  ]);

  expect(authorize("first")).toBe(one);
  expect(authorize("second")).toBe(two);
  for (const wrong of ["", "firs", "first ", "FIRST", "third"]) expect(authorize(wrong)).toBeUndefined();
});

test.each([
  ["Bearer abc", "abc"],
  ["bearer  a.b-c~", "a.b-c~"],
  ["Bearer", undefined],
  ["Bearer a b", undefined],
  ["Bearer a,Bearer b", undefined],
  ["Basic abc", undefined],
  [undefined, undefined],
])("of %s the token is %s", (header, token) => {
  expect(readBearerToken(header)).toBe(token);
});
