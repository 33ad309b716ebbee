import { expect, test } from "vitest";
import type { QmError } from "../../core/errors.ts";
import { WithContent } from "../../core/handler-result.ts";
import { readPromptResult, readResourceResult, readToolResult } from "./tool-actions.ts";

const text = (said: string) => ({ type: "text", text: said });
const picture = { type: "image", mimeType: "image/png", data: "AAAA" };

test("returns a single text as data", () => {
  expect(readToolResult("t", { content: [text("hello")] })).toBe("hello");
});

test.each([
  ["several texts", { content: [text("a"), text("b")] }, "a\nb", {}],
  ["no content", {}, "", {}],
  ["a picture", { content: [text("a"), picture] }, [text("a"), picture], {}],
  [
    "a text with annotations",
    { content: [{ ...text("a"), annotations: {} }] },
    [{ ...text("a"), annotations: {} }],
    {},
  ],
  ["a text with meta", { content: [text("a")], _meta: { k: 1 } }, "a", { meta: { k: 1 } }],
  ["a structured result", { content: [text("{}")], structuredContent: [1] }, [1], { structured: true }],
  ["nothing as a structured result", { structuredContent: null }, null, { structured: true }],
])("%s is data, and content beside it", (_what, result, data, more) => {
  const answered = readToolResult("t", result);

  expect(answered).toBeInstanceOf(WithContent);
  expect(answered).toEqual(new WithContent(data, { blocks: "content" in result ? result.content : [], ...more }));
});

test("throws a tool's error with its text and content", () => {
  const failure = (result: object): QmError => {
    try {
      readToolResult("send", { isError: true, ...result });
    } catch (thrown) {
      return thrown as QmError;
    }
    throw new Error("it did not fail");
  };

  expect(failure({ content: [text("no such user")] })).toMatchObject({
    code: "action_failed",
    message: "send failed: no such user",
    content: { blocks: [text("no such user")] },
  });
  expect(failure({})).toMatchObject({ message: "send failed: it gave no reason" });
});

test("returns resources and prompts as data, with content for a model", () => {
  const resource = { uri: "a:b", text: "hello" };
  const read = { contents: [resource] };
  const prompt = { messages: [{ role: "user", content: text("do it") }] };

  expect(readResourceResult(read)).toEqual(new WithContent(read, { blocks: [{ type: "resource", resource }] }));
  expect(readPromptResult(prompt)).toEqual(new WithContent(prompt, { blocks: [text("do it")] }));
});

test("refuses an object with too many fields", () => {
  const wide = (fields: number) => Object.fromEntries(Array.from({ length: fields }, (_, at) => [`f${at}`, at]));

  expect(() => readToolResult("t", { content: [], structuredContent: { list: [wide(20_001)] } })).toThrow(
    "more than 20000 fields",
  );
  expect(() => readToolResult("t", { content: [], structuredContent: { list: [wide(20_000)] } })).not.toThrow();
});
