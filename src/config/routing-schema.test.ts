import { describe, expect, test } from "vitest";
import { parseFileValue } from "./file-keys.ts";
import { routingSchema } from "./limits-schema.ts";
import { toFileJsonSchema } from "./testing.ts";

function problemsOf(value: unknown): readonly string[] {
  const parsed = parseFileValue(routingSchema, value);
  return parsed.success ? [] : parsed.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
}

describe("routing", () => {
  test("has no rules and a default pause", () => {
    expect(parseFileValue(routingSchema, undefined)).toEqual({ success: true, data: { rules: [] } });
    expect(parseFileValue(routingSchema, { rules: [{ name: "x", retry: { attempts: 2 } }] })).toEqual({
      success: true,
      data: { rules: [{ name: "x", retry: { attempts: 2, backoffMs: 200 } }] },
    });
  });

  test.each([
    [{ event: "tool_call:*" }, "rules.0.name"],
    [{ name: "x", to: "mine" }, "rules.0"],
    [{ name: "x", event: "tool_result:*" }, "rules.0.event: no rule is asked about results"],
    [{ name: "x", source: "" }, "rules.0.source"],
    [{ name: "x", event: "*".repeat(257) }, "rules.0.event"],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference as it stands in the file
    [{ name: "x", when: "ctx.tenant == '${env:TENANT}'" }, "rules.0.when: a reference cannot be used here"],
    [{ name: "x", deadline_ms: 0 }, "rules.0.deadline_ms"],
    [{ name: "x", retry: { attempts: 11 } }, "rules.0.retry.attempts"],
    [{ name: "x", retry: { attempts: 2, backoff_ms: 30_001 } }, "rules.0.retry.backoff_ms"],
  ])("refuses %j", (rule, problem) => {
    expect(problemsOf({ rules: [rule] })).toEqual([expect.stringContaining(problem)]);
  });

  test("refuses two rules of one name", () => {
    expect(problemsOf({ rules: [{ name: "x" }, { name: "x" }] })).toEqual(["rules.1.name: another rule has this name"]);
  });

  test("describes every key", () => {
    const described = JSON.stringify(toFileJsonSchema(routingSchema));

    for (const key of ["rules", "name", "source", "event", "when", "deadline_ms", "retry", "attempts", "backoff_ms"])
      expect(described).toMatch(new RegExp(`"${key}":\\{[^{}]*"description":"`));
  });
});
