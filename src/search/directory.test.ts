import { expect, test } from "vitest";
import { defineAction } from "../catalog/define-action.ts";
import type { World } from "../core/world.ts";
import { type DirectoryOptions, renderDirectory } from "./directory.ts";

const action = (name: string, more: { tags?: string[]; world?: string } = {}) => {
  const at = name.indexOf("__");
  return defineAction(name.slice(0, at), {
    entry: name.slice(at + 2),
    description: "Does it.",
    effect: "read",
    input: { type: "object" },
    run: () => null,
    ...more,
  });
};

const options = (more: Partial<DirectoryOptions> = {}): DirectoryOptions => ({
  maxGroups: 20,
  maxActionsPerGroup: 6,
  showCounts: true,
  defaultGroups: true,
  groups: [],
  ...more,
});

const actions = [
  action("file__list"),
  action("file__read"),
  action("mcp__github__create_issue", { tags: ["code", "write"] }),
  action("mcp__github__list_issues", { tags: ["code"] }),
  action("skill__brew", { world: "kitchen" }),
  action("tool__remember"),
];

const kitchen: World = {
  name: "kitchen",
  description: "Cook and clean.",
  groups: [],
  has: ({ name }) => ["skill__brew", "tool__remember"].includes(name),
};

test("groups actions by namespace, with their shared tags", () => {
  expect(renderDirectory(actions, options())).toEqual({
    text: `## Directory of actions
- file — 2 actions
  file__list, file__read
- mcp__github — code — 2 actions
  mcp__github__create_issue, mcp__github__list_issues
- skill — 1 action
  skill__brew
- tool — 1 action
  tool__remember`,
    groups: ["file", "mcp__github", "skill", "tool"],
    actions: 6,
  });
});

test("lists the caller's world first, its own groups before the rest of it", () => {
  const world: World = { ...kitchen, groups: [{ name: "drinks", title: "Coffee", actions: ["skill__brew"] }] };
  const { text } = renderDirectory(actions, options({ groups: [{ name: "files", namespaces: ["file"] }] }), world);

  expect(text).toBe(`## Directory of actions
### World kitchen: Cook and clean.
- drinks — Coffee — 1 action
  skill__brew
- tool — 1 action
  tool__remember
### Core
- files — 2 actions
  file__list, file__read
- mcp__github — code — 2 actions
  mcp__github__create_issue, mcp__github__list_issues`);
});

test("has no headings when the world adds nothing", () => {
  const { text } = renderDirectory(actions, options(), { ...kitchen, has: () => false });

  expect(text).toBe(renderDirectory(actions, options()).text);
});

test("counts omitted names and groups", () => {
  const { text, groups, actions: held } = renderDirectory(actions, options({ maxGroups: 1, maxActionsPerGroup: 1 }));

  expect(text).toContain("- file — 2 actions\n  file__list, +1\n- and 3 more groups, 4 actions; search finds them");
  expect(groups).toEqual(["file"]);
  expect(held).toBe(2);
});

test("can leave out counts, except for groups with omitted names", () => {
  const { text } = renderDirectory(actions.slice(0, 2), options({ showCounts: false }));
  const cut = renderDirectory(actions.slice(0, 2), options({ showCounts: false, maxActionsPerGroup: 0 }));

  expect(text).toBe("## Directory of actions\n- file\n  file__list, file__read");
  expect(cut.text).toBe("## Directory of actions\n- file — 2 actions");
});

test("a group matches by namespace, tag, name or glob, and the first match wins", () => {
  const groups = [
    { name: "issues", title: "GitHub", trigger: "about code", actions: ["mcp__github__*", "remember"] },
    { name: "code", tags: ["code"] },
    { name: "files", namespaces: ["file"] },
    { name: "empty", namespaces: ["nothing"] },
  ];
  const found = renderDirectory(actions, options({ groups }));

  expect(found.groups).toEqual(["issues", "files", "skill"]);
  expect(found.text).toContain("- issues — GitHub — about code — 3 actions");
  expect(renderDirectory(actions, options({ groups, defaultGroups: false })).groups).toEqual(["issues", "files"]);
});

test("is empty without actions", () => {
  expect(renderDirectory([], options())).toEqual({ text: "", groups: [], actions: 0 });
});
