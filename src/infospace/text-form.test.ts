import { expect, test } from "vitest";
import { detectTextForm } from "./json-text.ts";

test.each([
  ["a list", ' [1, {"a": 2}]\n', { form: "json", value: [1, { a: 2 }] }],
  ["an object over several lines", '{\n  "a": 1\n}\n', { form: "json", value: { a: 1 } }],
  ["lines", '{"a":1}\n{"a":2}\n', { form: "lines" }],
  ["lines with empty ones between and CRLF", '{"a":1}\r\n\r\n[2]', { form: "lines" }],
  ["one line is one value", '{"a":1}\n', { form: "json", value: { a: 1 } }],
  ["one value after empty lines", '\n\n{"a":1}', { form: "json", value: { a: 1 } }],
  ["one line that is none", '{"a":1}\n{"a":2}\noops', { form: "text" }],
  ["one line that is no record", '{"a":1}\n2\n', { form: "text" }],
  ["plain lines", "1\n2\n3", { form: "text" }],
  ["JSON inside prose", 'Here it is: {"a":1}', { form: "text" }],
  ["a quoted text", '"just a text"', { form: "text" }],
  ["something like JSON", "{not json}", { form: "text" }],
  ["nothing", "", { form: "text" }],
])("%s", (_, text, form) => {
  expect(detectTextForm(text)).toEqual(form);
});

test("leaves a text with too many digits as it is", () => {
  expect(detectTextForm('{"id":9007199254740993}')).toEqual({ form: "text" });
  expect(detectTextForm('{"id":1}\n{"id":1234567890123456789}')).toEqual({ form: "text" });
  expect(detectTextForm('{"id":"1234567890123456789","n":9007199254740991}').form).toBe("json");
});
