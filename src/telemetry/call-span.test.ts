import { describe, expect, test } from "vitest";
import type { Action } from "../core/action.ts";
import { actionName } from "../core/names.ts";
import type { Outcome } from "../core/outcome.ts";
import { silentTracer } from "../core/tracing.ts";
import { startCallSpan, type TracedCall } from "./call-span.ts";
import { openTelemetryTracer } from "./opentelemetry.ts";
import { createListeningSdk } from "./testing.ts";

const SECRET = "hunter2-hunter2";
const call: TracedCall = {
  callId: "c1",
  name: "file.read",
  args: { path: "a.txt", password: SECRET },
  caller: { actor: "reviewer", session: "chat-1" },
  via: "universal",
  redact: (value) => JSON.parse(JSON.stringify(value).replaceAll(SECRET, "[redacted]")),
};
const action = {
  name: actionName("file", "read"),
  category: "file",
  description: "Read a file. It may be long.",
  effect: "read",
} as Action;
const ended = { callId: "c1", value: "", durationMs: 250 };
const done: Outcome = { ...ended, status: "done", action: action.name, data: { text: `a ${SECRET}` } };
const failed: Outcome = {
  ...ended,
  status: "failed",
  action: action.name,
  reason: `it said ${SECRET}`,
  error: { code: "action_failed", error: `it said ${SECRET}` },
};

async function told(outcome: Outcome, given: Partial<TracedCall> = {}, content = false) {
  const sdk = createListeningSdk();
  const tracer = await openTelemetryTracer({ content });
  const span = startCallSpan(tracer, { ...call, ...given });
  return {
    span,
    async end() {
      span.ended(outcome);
      const [seen] = sdk.spans();
      return { span: seen, attributes: seen?.attributes ?? {}, points: await sdk.points() };
    },
  };
}

describe("a call", () => {
  test("that is done follows the conventions, without content", async () => {
    const { span, end } = await told(done);

    span.decided(action, { kind: "allow" });

    const { span: seen, attributes, points } = await end();
    expect(seen).toMatchObject({ name: "execute_tool file__read", kind: "INTERNAL", status: "UNSET" });
    expect(attributes).toEqual({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "file__read",
      "gen_ai.tool.call.id": "c1",
      "gen_ai.tool.type": "function",
      "gen_ai.tool.description": "Read a file.",
      "gen_ai.agent.name": "reviewer",
      "quartermaster.via": "universal",
      "quartermaster.session": "chat-1",
      "quartermaster.actor": "reviewer",
      "quartermaster.effect": "read",
      "quartermaster.policy.decision": "allow",
      "quartermaster.outcome": "done",
    });
    expect(points).toMatchObject([{ metric: "gen_ai.execute_tool.duration", count: 1, sum: 0.25 }]);
    expect(points[0]?.attributes).toEqual({
      "gen_ai.tool.name": "file__read",
      "gen_ai.tool.type": "function",
      "gen_ai.agent.name": "reviewer",
    });
  });

  test("has content without secrets when that is wanted", async () => {
    const { span, end } = await told(done, {}, true);

    span.decided(action, { kind: "allow" });

    expect((await end()).attributes).toMatchObject({
      "gen_ai.tool.call.arguments": '{"path":"a.txt","password":"[redacted]"}',
      "gen_ai.tool.call.result": '{"text":"a [redacted]"}',
    });
  });

  test("has only what the model sees of a distributed result", async () => {
    const { end } = await told({ ...done, forModel: { text: "less" } }, {}, true);

    expect((await end()).attributes["gen_ai.tool.call.result"]).toBe('{"text":"less"}');
  });

  test.each([
    [false, undefined],
    [true, "it said [redacted]"],
  ])("that failed has its code, and with content %s its text", async (content, message) => {
    const { span, end } = await told(failed, {}, content);

    span.decided(action, { kind: "allow" });

    const { span: seen, attributes, points } = await end();
    expect(seen).toMatchObject({ status: "ERROR", message });
    expect(attributes).toMatchObject({ "error.type": "action_failed", "quartermaster.outcome": "failed" });
    expect(JSON.stringify([seen, points])).not.toContain(SECRET);
    expect(points).toMatchObject([{ attributes: { "error.type": "action_failed" } }]);
  });

  test("that is refused names the layer", async () => {
    const { span, end } = await told({ ...failed, status: "refused", error: { code: "denied", error: "no" } });

    span.decided(action, { kind: "deny", objection: { layer: "tag-rules" } });

    expect((await end()).attributes).toMatchObject({
      "error.type": "denied",
      "quartermaster.policy.decision": "deny",
      "quartermaster.policy.layer": "tag-rules",
      "quartermaster.outcome": "refused",
    });
  });

  test("that waits is no error and has no duration", async () => {
    const approval = { id: "ap-1", level: "user", expiresAt: "2026-01-01T00:00:00Z" };
    const { span, end } = await told({
      ...ended,
      status: "waiting",
      hint: "",
      action: action.name,
      reason: "ask",
      approval,
    });

    span.decided(action, { kind: "ask", objection: { layer: "approval" } });

    const { span: seen, attributes, points } = await end();
    expect(seen).toMatchObject({ status: "UNSET" });
    expect(attributes).toMatchObject({ "quartermaster.outcome": "waiting", "quartermaster.approval.id": "ap-1" });
    expect(points).toEqual([]);
  });

  test("that was approved names the approval", async () => {
    const { span, end } = await told(done);

    span.decided(action, { kind: "ask", objection: { layer: "approval" } }, "ap-1");

    expect((await end()).attributes).toMatchObject({ "quartermaster.approval.id": "ap-1" });
  });

  test("of an MCP tool has the type extension", async () => {
    const name = actionName("mcp", "github__create_issue");
    const { span, end } = await told({ ...done, action: name });

    span.decided({ ...action, name, category: "mcp" }, { kind: "allow" });

    expect((await end()).attributes["gen_ai.tool.type"]).toBe("extension");
  });

  test("that failed before the decision still names its action", async () => {
    const { end } = await told({ ...failed, error: { code: "invalid_arguments", error: "no" } });

    const { span, points } = await end();

    expect(span).toMatchObject({ name: "execute_tool file__read" });
    expect(points).toMatchObject([{ attributes: { "gen_ai.tool.name": "file__read" } }]);
  });

  test("with an unknown name names no span and creates no time series", async () => {
    const { action: _none, ...unknown } = failed;
    const { end } = await told({ ...unknown, error: { code: "unknown_action", error: "no" } } as Outcome, {
      name: "x".repeat(10_000),
    });

    const { span, attributes, points } = await end();

    expect(span?.name).toBe("execute_tool");
    expect(String(attributes["gen_ai.tool.name"])).toHaveLength(256);
    expect(points).toEqual([]);
  });

  test("inside another is its child", async () => {
    const sdk = createListeningSdk();
    const tracer = await openTelemetryTracer();

    const outer = startCallSpan(tracer, call);
    const inner = startCallSpan(tracer, { ...call, parent: outer.carrier() });
    inner.ended(done);
    outer.ended(done);

    const [first, second] = sdk.spans();
    expect(second).toMatchObject({ parent: first?.id, parentIsRemote: false });
  });
});

test("does nothing for the silent tracer", () => {
  const span = startCallSpan(silentTracer, {
    ...call,
    redact: () => {
      throw new Error("looked at");
    },
  });

  span.decided(action, { kind: "allow" });
  span.ended(done);

  expect(span.carrier()).toEqual({});
  expect(span.within(() => 7)).toBe(7);
});
