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
  ])("%j is read as the worst it can mean", (annotations) => {
    expect(traits(annotations)).toMatchObject({ effect: "external", tags: ["destructive"], idempotent: false });
  });

  test("are not found where they are inherited", () => {
    const inherited = Object.create({ readOnlyHint: true }) as JsonObject;

    expect(traits(inherited).effect).toBe("external");
  });

  test("are not believed where the server is not trusted", () => {
    const kind = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };

    expect(traits(kind, false)).toMatchObject({ effect: "external", tags: ["destructive"], idempotent: false });
  });
});

describe("overrides", () => {
  const override = (match: string, rest: Partial<ToolOverride> = {}): ToolOverride => {
    return { match, enabled: true, tags: [], ...rest };
  };

  test("count by name or glob, the last that fits, alone", () => {
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

  test("take the place of what the server says, trusted or not", () => {
    const reads = [override("delete_file", { effect: "read" })];

    expect(traits({ destructiveHint: true }, true, reads)).toMatchObject({
      effect: "read",
      tags: [],
      idempotent: true,
    });
    expect(traits({}, false, reads)).toMatchObject({ effect: "read", tags: [], idempotent: true });
  });

  test("make what was said to read only into something that is not known to be harmless twice", () => {
    const acts = [override("delete_file", { effect: "external", tags: ["destructive", "x", "x"] })];

    expect(traits({ readOnlyHint: true }, true, acts)).toMatchObject({
      effect: "external",
      tags: ["destructive", "x"],
      idempotent: false,
    });
  });
});
