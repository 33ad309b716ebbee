import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Effect } from "../core/action.ts";
import { QmError } from "../core/errors.ts";
import { createCatalog } from "./catalog.ts";
import { defineAction } from "./define-action.ts";
import { resolveAction } from "./resolve-action.ts";
import { createView, type View } from "./view.ts";

const world: Record<string, Record<string, Effect>> = {
  file: { read: "read", write: "write", edit: "write", delete: "write", list: "read" },
  web: { fetch: "read", search: "read" },
  "agent.peer": { alice: "external" },
  mcp: { github__create_issue: "external", search_registry: "read" },
  skill: { foo: "stateful", form: "stateful" },
  tool: { task_get: "read", purge: "stateful" },
};

const aliases: Record<string, readonly string[]> = { tool__task_get: ["getTask"] };

function viewOf(hidden: readonly string[] = []): View {
  const catalog = createCatalog({
    providers: Object.entries(world).map(([category, entries]) => ({
      category,
      capability: "test",
      list: () =>
        Object.entries(entries).map(([entry, effect]) =>
          defineAction(category, {
            entry,
            effect,
            description: `${entry}.`,
            aliases: aliases[`${category}__${entry}`] ?? [],
            input: z.object({}),
            run: () => null,
          }),
        ),
    })),
  });
  return createView(catalog.snapshot(), ({ name }) => ({ visible: !hidden.includes(name), approval: "never" }));
}

const found = (asked: string, view = viewOf()) => {
  const { action, how } = resolveAction(view, asked);
  return [action.name, how];
};

const refusal = (asked: string, view = viewOf()) => {
  try {
    return found(asked, view);
  } catch (thrown) {
    return (thrown as QmError).toProblem();
  }
};

describe("resolveAction", () => {
  test.each([
    ["file__read", "file__read", "exact"],
    ["file.read", "file__read", "respelled"],
    ["file/read", "file__read", "respelled"],
    ["File__Read", "file__read", "respelled"],
    ["FILE_READ", "file__read", "respelled"],
    ["read_file", "file__read", "respelled"],
    ["readFile", "file__read", "respelled"],
    ["file__read_file", "file__read", "respelled"],
    ["default_api.file__read", "file__read", "respelled"],
    ["functions.file__read", "file__read", "respelled"],
    ["write_file", "file__write", "respelled"],
    ["file.write", "file__write", "respelled"],
    ["getTask", "tool__task_get", "alias"],
    ["task_get", "tool__task_get", "respelled"],
    ["fs__read", "file__read", "alias"],
    ["multi_agent__alice", "agent.peer__alice", "alias"],
    ["agent_peer__alice", "agent.peer__alice", "respelled"],
    ["mcp.tool__github__create_issue", "mcp__github__create_issue", "alias"],
    ["github.create_issue", "mcp__github__create_issue", "respelled"],
    ["create_issue", "mcp__github__create_issue", "respelled"],
  ])("%s means %s (%s)", (asked, name, how) => {
    expect(found(asked)).toEqual([name, how]);
  });
});

describe("an unknown name", () => {
  test("is answered with a reason, suggestions and a hint", () => {
    expect(refusal("skil__foo")).toEqual({
      code: "unknown_action",
      error: 'Unknown action "skil__foo"',
      reason: "No action of that name is available to you.",
      suggestions: ["skill__foo"],
      hint: "Use one of the suggestions.",
    });
  });

  test.each([
    ["file__raed", ["file__read"]],
    ["web__serach", ["web__search"]],
    ["mcp__github__create_isue", ["mcp__github__create_issue"]],
    ["nothing__like_it", []],
    ["exec__execute", []],
  ])("%s suggests %j", (asked, suggestions) => {
    expect(refusal(asked)).toMatchObject({ suggestions });
  });

  test("never gets a changing action suggested for a reading verb", () => {
    for (const asked of ["file__show", "file__get", "file__lookup", "file__find", "list_purge", "file__deleet_list"]) {
      const suggestions = (refusal(asked) as unknown as { suggestions?: string[] }).suggestions ?? [];
      if (!asked.includes("delee"))
        expect(suggestions.filter((name) => /delete|write|edit|purge/.test(name))).toEqual([]);
    }
  });

  test("is not resolved to a changing action for a reading verb", () => {
    // The words of tool__purge with a looking verb must not purge.
    expect(refusal("purge_tool")).toMatchObject({ code: "unknown_action" });
  });

  test("is not resolved when two actions fit", () => {
    // alice the peer and nobody else; `search` is both web's and part of mcp's registry search.
    expect(refusal("search")).toEqual(["web__search", "respelled"]);
    expect(refusal("read_write_file")).toMatchObject({ code: "unknown_action" });
  });
});

describe("hidden and nonexistent", () => {
  const hidden = "file__delete";
  const without = viewOf([hidden]);
  const spellings = ["file__delete", "file.delete", "delete_file", "delete", "file__delte", "File__Delete"];

  test.each(spellings)("%s neither resolves to a hidden action nor reveals it", (asked) => {
    const answer = JSON.stringify(refusal(asked, without));

    expect(answer.replace(asked, "")).not.toContain(hidden);
  });

  test("answers a hidden name like an unknown one", () => {
    const shape = (asked: string) => JSON.stringify(refusal(asked, without)).replaceAll(asked, "NAME");

    expect(shape("file__delete")).toBe(shape("file__dxlxtx"));
  });
});

test("resolves any text or throws unknown_action, quickly", () => {
  const view = viewOf();
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 400 }), (asked) => {
      try {
        resolveAction(view, asked);
      } catch (thrown) {
        expect(thrown).toBeInstanceOf(QmError);
        expect((thrown as QmError).code).toBe("unknown_action");
      }
    }),
    { numRuns: 1000 },
  );
});
