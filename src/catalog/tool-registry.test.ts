import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { z as zod3 } from "zod/v3";
import { QmError } from "../core/errors.ts";
import { createToolRegistry } from "./tool-registry.ts";

const sound = {
  name: "task_get",
  description: "Get one task.",
  inputSchema: { type: "object", properties: { id: { type: "string" } } },
  handler: () => null,
  scope: "generalist",
  effect: "read",
} as const;

const specialist = { ...sound, scope: "specialist", justification: "Only the triage actor reads raw tasks." } as const;

const register = (tool: unknown) => createToolRegistry().register(tool as never);

describe("legal pairs of scope and routing", () => {
  test.each([
    ["a generalist", sound, "routed"],
    ["a generalist that says so", { ...sound, routing: "routed" }, "routed"],
    ["a routed specialist", specialist, "routed"],
    [
      "a bypass specialist",
      { ...specialist, routing: "bypass", bypassRouting: { reason: "An inline sum on the hot path." } },
      "bypass",
    ],
  ])("%s registers", (_name, tool, routing) => {
    const registry = createToolRegistry();

    const name = registry.register(tool as never);

    expect(name).toBe("tool__task_get");
    expect(registry.provider.list()).toMatchObject([{ name, routing }]);
  });
});

describe("a refused registration names the tool, the field, the value and the place", () => {
  test.each<[string, Record<string, unknown>, RegExp]>([
    [
      "generalist with bypass",
      { routing: "bypass", bypassRouting: { reason: "It is fast and inline here." } },
      /routing \("bypass"\) is refused: a generalist/,
    ],
    ["specialist without justification", { scope: "specialist" }, /justification \(nothing\) is missing/],
    [
      "placeholder justification",
      { scope: "specialist", justification: "TODO: explain this later" },
      /justification .* is a placeholder/,
    ],
    ["one-word justification", { scope: "specialist", justification: "because" }, /too short to be a reason/],
    [
      "repeated-word justification",
      { scope: "specialist", justification: "reason reason reason reason" },
      /too short to be a reason/,
    ],
    [
      "bypass without reason",
      { ...specialist, routing: "bypass" },
      /bypassRouting \(nothing\) has a reason that is missing/,
    ],
    [
      "bypass with placeholder",
      { ...specialist, routing: "bypass", bypassRouting: { reason: "tbd" } },
      /bypassRouting .* is a placeholder/,
    ],
    [
      "reason without bypass",
      { bypassRouting: { reason: "An inline sum on the hot path." } },
      /routing is not "bypass"/,
    ],
    ["peer-exposed specialist", { ...specialist, peerExposed: true }, /peerExposed \(true\) is refused/],
    ["misspelt effect", { effect: "raed" }, /effect \("raed"\) is none of .* did you mean read\?/],
    ["no effect", { effect: undefined }, /effect \(nothing\) is none of pure, read/],
    ["a chosen action in no argument", { runsAction: { argument: "action" } }, /runsAction .* names no argument of/],
    ["a chosen action as text", { runsAction: "id" }, /runsAction \("id"\) is not {argument: "<name>"/],
    ["misspelt scope", { scope: "generallist" }, /scope \("generallist"\).*did you mean generalist\?/],
    ["misspelt routing", { routing: "route" }, /routing \("route"\) is none of routed, bypass/],
    ["misspelt loading", { loading: "defered" }, /loading .*did you mean deferred\?/],
    ["empty name", { name: "  " }, /without a name|tool " {2}": name .* is empty/],
    ["no name", { name: undefined }, /name \(nothing\) is empty/],
    ["name with a space", { name: "get task" }, /not an entry name/],
    ["respond", { name: "respond" }, /name \("respond"\) is reserved/],
    ["Respond", { name: "Respond" }, /is reserved/],
    ["empty description", { description: " " }, /description .* is empty/],
    ["no handler", { handler: undefined }, /handler \(nothing\) is not a function/],
    ["a schema that is none", { inputSchema: "object" }, /inputSchema \("object"\) is not a schema/],
    ["the schema of a string", { inputSchema: { type: "string" } }, /inputSchema .* has type "string"/],
    ["zod of a string", { inputSchema: z.string() }, /has type "string"/],
    [
      "zod 3",
      { inputSchema: zod3.object({ id: zod3.string() }) },
      /: inputSchema is a zod 3 schema, which cannot be converted to JSON Schema \(Use zod 4 .*, or pass JSON Schema\.\)/,
    ],
    ["zod 3 of a result", { outputSchema: zod3.string() }, /: outputSchema is a zod 3 schema/],
    [
      "zod before 3.24, which is no Standard Schema",
      { inputSchema: { _def: zod3.object({})._def, parse: () => ({}) } },
      /: inputSchema is a zod 3 schema/,
    ],
    ["a schema pointing outside", { inputSchema: { type: "object", $ref: "http://example.com" } }, /points outside/],
    [
      "approval in bad CEL",
      { requiresApproval: { autoApproveIf: "args.cost <" } },
      /requiresApproval .*Unexpected token/,
    ],
    ["approval of another kind", { requiresApproval: "yes" }, /requiresApproval \("yes"\) is none of/],
    ["tags that are no list", { tags: "read" }, /tags \("read"\) is not a list/],
    ["an empty alias", { aliases: [""] }, /aliases .* is not a list of non-empty/],
    ["a timeout of 0", { timeout: 0 }, /timeout \(0\) is not a whole number above 0/],
    ["half a concurrency", { concurrency: 1.5 }, /concurrency \(1.5\)/],
    ["examples without args", { examples: [{}] }, /examples .* is not a list of/],
    [
      "a field there is none of",
      { requireApproval: true },
      /requireApproval \(true\) is no field .*did you mean requiresApproval\?/,
    ],
  ])("%s", (_name, changes, message) => {
    const tool: Record<string, unknown> = { ...sound, ...changes };

    let thrown: unknown;
    try {
      register(tool);
    } catch (error) {
      thrown = error;
    }

    expect(thrown).toBeInstanceOf(QmError);
    const error = thrown as QmError;
    expect(error.code).toBe("invalid_registration");
    expect(error.message).toMatch(message);
    expect(error.message).toMatch(/registered at .*registry\.test\.ts:\d+\]$/);
  });

  test("reports all problems at once", () => {
    expect(() => register({ ...sound, effect: "x", scope: "y", name: "" })).toThrow(/name .*effect .*scope/);
  });

  test("refuses a value that is no object", () => {
    expect(() => register(null)).toThrow(/is not an object/);
  });

  test("refuses a name or an alias that is taken", () => {
    const registry = createToolRegistry();
    registry.register({ ...sound, aliases: ["get_task"] });

    expect(() => registry.register(sound)).toThrow(
      /name \("task_get"\) is already registered at .*registry\.test\.ts:\d+/,
    );
    expect(() => registry.register({ ...sound, name: "get_task" })).toThrow(/already registered/);
    expect(() => registry.register({ ...sound, name: "other", aliases: ["task_get"] })).toThrow(
      /aliases .*already registered/,
    );
  });
});

describe("a registered tool", () => {
  test("is not affected by later changes of the registration", () => {
    const schema = { type: "object", properties: { id: { type: "string" } } };
    const tags = ["read"];
    const registry = createToolRegistry();
    registry.register({ ...sound, inputSchema: schema, tags });

    schema.type = "string";
    tags.push("admin");

    expect(registry.provider.list()).toMatchObject([{ inputSchema: { type: "object" }, tags: ["read"] }]);
    const [action] = registry.provider.list() as unknown as [{ inputSchema: { properties: Record<string, unknown> } }];
    expect(() => {
      action.inputSchema.properties.extra = {};
    }).toThrow(TypeError);
  });

  test("is announced when it is registered and unregistered", () => {
    const registry = createToolRegistry();
    const changed = vi.fn();
    const unwatch = registry.provider.watch?.(changed);

    registry.register(sound);
    expect(registry.unregister("task_get")).toBe(true);
    expect(registry.unregister("task_get")).toBe(false);
    unwatch?.();
    registry.register(sound);

    expect(changed).toHaveBeenCalledTimes(2);
  });

  test("accepts a reason in a language without spaces", () => {
    expect(register({ ...specialist, justification: "トリアージ担当だけが使う内部処理です" })).toBe("tool__task_get");
  });
});
