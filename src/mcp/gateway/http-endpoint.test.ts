import { expect, test } from "vitest";
import { authorizeBearer, createTokenAuthorizer } from "../../core/token-authorizer.ts";
import { profileWith } from "./testing.ts";

test("finds the profile of a token, and of no other text", () => {
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
])("reads from the header %s the token %s", (header, token) => {
  const read = authorizeBearer(header, (given) => ({ given }));

  expect(read.token).toBe(token);
  expect(read.owner).toEqual(token === undefined ? undefined : { given: token });
});
