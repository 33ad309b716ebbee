import { expect, test } from "vitest";
import { hashActionText, hashCatalog, toEmbeddedText } from "./action-text.ts";
import { testAction, testActions } from "./testing.ts";

const schema = (description: string) => ({
  type: "object",
  properties: { issueTitle: { type: "string", description }, body: {}, labels: true },
});

test("has the name in words, the description, the tags and the parameters", () => {
  const action = {
    ...testAction("mcp__github__createIssue", " Open an issue. ", schema("Short and clear.")),
    tags: ["code", "write"],
  };

  expect(toEmbeddedText(action)).toBe(
    "mcp github create issue\nOpen an issue.\ncode, write\nissue title Short and clear.; body; labels",
  );
  expect(toEmbeddedText(testAction("tool__wait", "Wait."))).toBe("tool wait\nWait.");
});

test("is clipped, but keeps the parameters", () => {
  const properties = Object.fromEntries(
    Array.from({ length: 100 }, (_, at) => [`field${at}`, { description: "y".repeat(500) }]),
  );
  const text = toEmbeddedText(testAction("tool__long", "x".repeat(100_000), { type: "object", properties }));

  expect(text.length).toBeLessThanOrEqual(2_000);
  expect(text).toContain("field1 yyy");
});

test("has another hash only for another text", () => {
  const action = testAction("tool__open", "Open it.", schema("a"));

  expect(hashActionText(testAction("tool__open", "Open it.", schema("b")))).not.toBe(hashActionText(action));
  expect(hashActionText(testAction("tool__open", "Open it!", schema("a")))).not.toBe(hashActionText(action));
  expect(hashActionText({ ...action, effect: "write", timeoutMs: 5, outputSchema: { type: "string" } })).toBe(
    hashActionText(action),
  );
});

test("the fingerprint of a catalog depends on its actions, not on their order", () => {
  const actions = testActions(5);
  const { fingerprint } = hashCatalog(actions);
  const [first, ...rest] = actions;

  expect(hashCatalog(actions.toReversed()).fingerprint).toBe(fingerprint);
  const others = [rest, [...actions, testAction("tool__more", "More.")], [testAction("tool__x", "X."), ...rest]];
  expect(new Set([fingerprint, ...others.map((each) => hashCatalog(each).fingerprint)]).size).toBe(4);
  expect(hashCatalog([]).fingerprint).not.toBe(fingerprint);
  expect(first).toBeDefined();
});

test("actions with the same text share a vector", () => {
  const { hashes, samples } = hashCatalog([testAction("tool__a_b", "Same."), testAction("tool__a.b", "Same.")]);

  expect([hashes.size, samples.size]).toEqual([2, 1]);
});
