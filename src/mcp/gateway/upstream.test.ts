import { expect, test } from "vitest";
import { actionName } from "../../core/names.ts";
import type { PassThroughTool } from "./gateway.ts";
import { listDefinitions, selectPrompts, selectTools } from "./upstream.ts";

function tool(server: string, name: string): PassThroughTool {
  return { server, name, action: actionName("mcp", `${server}__${name}`), definition: { name, from: server } };
}

test("the first server by name keeps a name, and the others get a prefix, in any order", () => {
  const shown = selectTools([tool("zulu", "read"), tool("alfa", "read"), tool("mike", "read")], new Set());

  expect([...shown].map(([name, { server }]) => [name, server])).toEqual([
    ["read", "alfa"],
    ["mike_read", "mike"],
    ["zulu_read", "zulu"],
  ]);
});

test("keeps our own names, and a taken prefixed name with its tool", () => {
  const shown = selectTools([tool("a", "search"), tool("b", "a_search")], new Set(["search"]));

  expect([...shown.keys()].sort()).toEqual(["a_search"]);
  expect(shown.get("a_search")?.server).toBe("b");
});

test("sorts definitions, and gives them the listed name", () => {
  const shown = selectTools([tool("b", "z"), tool("a", "z"), tool("a", "k")], new Set());

  expect(listDefinitions(shown, ({ definition }) => definition)).toEqual([
    { name: "b_z", from: "b" },
    { name: "k", from: "a" },
    { name: "z", from: "a" },
  ]);
});

test("names prompts by the same rule", () => {
  const prompt = (server: string) => ({ server, prompt: { name: "review" } });

  expect([...selectPrompts([prompt("b"), prompt("a")]).keys()]).toEqual(["review", "b_review"]);
});
