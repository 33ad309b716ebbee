import { expect, test } from "vitest";
import { QmError } from "./errors.ts";
import { createHintWords, renderHint } from "./hint.ts";

const HINT =
  'It was not run. Search with {search}. Browse with {list}. Tell {user} so. Run {qm servers login a}. Read it with {infospace__load} {"target":"note__1"}. Approve it with {approve a-1}.';

test.each([
  ["universal", "It was not run. Search with search_actions. Browse with list_actions. Tell the user so."],
  ["deferred", "It was not run. Search with tool_search. Tell the user so."],
  ["flat", "It was not run. Tell the user so."],
  ["mcp", "It was not run. Tell the user so."],
  [
    "cli",
    "It was not run. Search with `qm search`. Browse with `qm list`. Run `qm servers login a`. Approve it with `qm approvals approve a-1`.",
  ],
  [
    "library",
    'It was not run. Search with qm.search(). Browse with qm.list(). Approve it with qm.approvals.answer("a-1", { decision: "approved" }, approver).',
  ],
  ["a host's own surface", "It was not run."],
])("names on %s only what exists there", (via, expected) => {
  expect(
    renderHint(
      HINT,
      createHintWords(via, () => false, true),
    ),
  ).toBe(expected);
});

test("names an action only to a caller that sees it, and search only if it is on", () => {
  const words = createHintWords("universal", (name) => name === "infospace__load", false);

  expect(renderHint(HINT, words)).toBe(
    'It was not run. Browse with list_actions. Tell the user so. Read it with infospace__load {"target":"note__1"}.',
  );
});

test("leaves other braces alone", () => {
  const hint = `Pass \${secret:NAME}, {"$item": "a"} or /users/{id}. Write { content }.`;

  expect(renderHint(hint)).toBe(hint);
});

test("an error shows its hint without steps, and the surface's words on request", () => {
  const error = new QmError("needs_login", "log in", { hint: "A person must log in. Run {qm servers login a}." });

  expect(error.hint).toBe("A person must log in.");
  expect(error.toProblem(createHintWords("cli", () => true, true)).hint).toBe(
    "A person must log in. Run `qm servers login a`.",
  );
  expect(new QmError("denied", "no", { hint: "Run {qm list}." }).toProblem()).toEqual({ code: "denied", error: "no" });
});
