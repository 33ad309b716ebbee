import { describe, expect, test } from "vitest";
import { spec, tool } from "../../../test/support/manifests.ts";
import type { JsonObject } from "../../core/json.ts";
import type { ToolOverride } from "../server-spec.ts";
import { resolveToolTraits } from "./tool-traits.ts";

const traits = (annotations: JsonObject | undefined, trustAnnotations = true, tools: readonly ToolOverride[] = []) =>
  resolveToolTraits(
    tool("delete_file", "", annotations === undefined ? {} : { annotations }),
    spec("s", { trustAnnotations, tools }),
  );

describe("annotations", () => {
  test.each<[JsonObject | undefined, string, readonly string[], boolean]>([
    [undefined, "external", ["destructive"], false],
    [{}, "external", ["destructive"], false],
    [{ readOnlyHint: true }, "read", [], true],
    [{ readOnlyHint: true, destructiveHint: false, idempotentHint: false, openWorldHint: true }, "read", [], true],
    [{ readOnlyHint: true, openWorldHint: false }, "read", [], true],
    [{ readOnlyHint: false, openWorldHint: false }, "write", ["destructive"], false],
    [{ openWorldHint: false, destructiveHint: false }, "write", [], false],
    [{ destructiveHint: false }, "external", [], false],
    [{ destructiveHint: true, idempotentHint: true }, "external", ["destructive"], true],
    [{ openWorldHint: false, destructiveHint: false, idempotentHint: true }, "write", [], true],
  ])("%j is %s %j, idempotent: %s", (annotations, effect, tags, idempotent) => {
    expect(traits(annotations)).toEqual({ effect, tags, idempotent, enabled: true });
  });

  test.each<[JsonObject]>([
    [{ readOnlyHint: true, destructiveHint: true }],
    [{ readOnlyHint: true, destructiveHint: true, idempotentHint: true, openWorldHint: false }],
    [{ readOnlyHint: true, destructiveHint: "no" }],
    [{ readOnlyHint: "true", destructiveHint: "false", idempotentHint: 1, openWorldHint: null }],
    [{ readOnlyHint: ["true"] }],
  ])("%j counts as the worst case", (annotations) => {
    expect(traits(annotations)).toMatchObject({ effect: "external", tags: ["destructive"], idempotent: false });
  });

  test("ignore inherited properties", () => {
    const inherited = Object.create({ readOnlyHint: true }) as JsonObject;

    expect(traits(inherited).effect).toBe("external");
  });

  test("are ignored if the server is not trusted", () => {
    const kind = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };

    expect(traits(kind, false)).toMatchObject({ effect: "external", tags: ["destructive"], idempotent: false });
  });
});

describe("overrides", () => {
  const override = (match: string, rest: Partial<ToolOverride> = {}): ToolOverride => {
    return { match, enabled: true, tags: [], ...rest };
  };

  test("match by name or glob, and only the last match counts", () => {
    const tools = [
      override("*", { effect: "stateful", approval: true, enabled: false, tags: ["first"] }),
      override("delete_*", { tags: ["files"], loading: "always" }),
      override("read_*", { effect: "pure" }),
    ];

    expect(traits({ openWorldHint: false }, true, tools)).toEqual({
      effect: "write",
      tags: ["destructive", "files"],
      idempotent: false,
      loading: "always",
      enabled: true,
    });
    expect(traits({}, true, tools.slice(0, 1))).toMatchObject({ effect: "stateful", approval: true, enabled: false });
    expect(traits({}, true, [override("delete_file", { approval: true })])).toMatchObject({ approval: true });
  });

  test("replace the annotations, trusted or not", () => {
    const reads = [override("delete_file", { effect: "read" })];

    expect(traits({ destructiveHint: true }, true, reads)).toMatchObject({
      effect: "read",
      tags: [],
      idempotent: true,
    });
    expect(traits({}, false, reads)).toMatchObject({ effect: "read", tags: [], idempotent: true });
  });

  test("make a read-only tool with a stronger effect not idempotent", () => {
    const acts = [override("delete_file", { effect: "external", tags: ["destructive", "x", "x"] })];

    expect(traits({ readOnlyHint: true }, true, acts)).toMatchObject({
      effect: "external",
      tags: ["destructive", "x"],
      idempotent: false,
    });
  });
});
