import { expect, test } from "vitest";
import { fakeApprovals } from "../../../http/testing.ts";
import { formatTimeSpan } from "../../terminal-text.ts";
import { formatApprovalAnswer } from "./approval-text.ts";
import { findApproval } from "./lookup.ts";

const idOf = (at: number) => `${at.toString(16).padStart(8, "0")}-0000-7000-8000-000000000000`;

test("finds an id by its prefix among many", async () => {
  const approvals = fakeApprovals();
  for (let at = 0; at < 2_500; at++) approvals.ask({ id: idOf(at) });

  expect((await findApproval(approvals, idOf(2_400).slice(0, 8))).id).toBe(idOf(2_400));
  expect((await findApproval(approvals, idOf(3))).id).toBe(idOf(3));
  await expect(findApproval(approvals, "000009")).rejects.toMatchObject({
    code: "invalid_arguments",
    message: expect.stringContaining("196 approval ids"),
    details: { suggestions: expect.arrayContaining([idOf(2_499)]) },
  });
  await expect(findApproval(approvals, "00000")).rejects.toMatchObject({ code: "invalid_arguments" });
  await expect(findApproval(approvals, "fffffff")).rejects.toMatchObject({ code: "not_found" });
});

test.each([
  [-5, "0s"],
  [999, "0s"],
  [59_999, "59s"],
  [119_999, "119s"],
  [120_000, "2m"],
  [7_200_000, "2h"],
  [86_400_000, "24h"],
  [3 * 86_400_000, "3d"],
])("%d ms are %s", (ms, text) => {
  expect(formatTimeSpan(ms)).toBe(text);
});

test("formats an answer as one safe line", () => {
  const given = { decision: "denied", by: "ann\u001B[2J", via: "http", at: "t", reason: "no\nnever" } as const;

  expect(formatApprovalAnswer({ answer: given })).toBe("denied by ann\\u{1b}[2J (http): no never");
  expect(
    formatApprovalAnswer({
      answer: { decision: "expired", by: "quartermaster", via: "clock", at: "t", reason: "late" },
    }),
  ).toBe("expired: late");
});
