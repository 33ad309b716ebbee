import { expect, test } from "vitest";
import { QmError } from "../../core/errors.ts";
import { explainFsError } from "./fs-errors.ts";

test.each([
  ["ENOSPC", "action_failed", 'the disk is full: "a/b.txt" was not changed'],
  ["EACCES", "action_failed", 'the system does not allow to write "a/b.txt"'],
  ["EISDIR", "conflict", '"a/b.txt" is a folder'],
  ["EMFILE", "overloaded", 'cannot write "a/b.txt": too many files are open'],
  ["EIO", "action_failed", 'cannot write "a/b.txt" (EIO)'],
])("%s is explained without the message of the system", (errno, code, message) => {
  const thrown = Object.assign(new Error(`${errno}: failed, open '/srv/root/a/b.txt'`), { code: errno });

  const error = explainFsError(thrown, "a/b.txt", "write");

  expect(error).toBeInstanceOf(QmError);
  expect(error).toMatchObject({ code, message });
});

test("returns other errors unchanged", () => {
  const refusal = new QmError("path_refused", "no");
  const abort = Object.assign(new Error("aborted"), { code: "ABORT_ERR" });

  expect(explainFsError(refusal, "a", "read")).toBe(refusal);
  expect(explainFsError(abort, "a", "read")).toBe(abort);
});
