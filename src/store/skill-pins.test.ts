import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { hashBytes } from "../core/file-digest.ts";
import { openSqliteStore } from "./open-store.ts";

const at = new Date("2026-01-02T03:04:05.678Z");
const [A, B] = [new Uint8Array([97, 0, 255]), new Uint8Array([98])];
const files = new Map([
  ["a b.md", A],
  ["SKILL.md", B],
]);
const pin = { root: "/project/.agents/skills", skill: "triage", digest: "1", at, by: "ada" };

test("keeps the first pin of a skill until it is replaced, for every process of the store", async () => {
  const folder = mkdtempSync(join(tmpdir(), "qm-pins-"));
  const open = async () => {
    const store = await openSqliteStore(join(folder, "store.db"), { now: () => at });
    onTestFinished(() => store.close());
    return store;
  };
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [{ skillPins: here, approvals }, { skillPins: there }] = [await open(), await open()];

  expect(await here.add(pin, files)).toEqual({ pin, isNew: true });
  expect(await there.add({ ...pin, digest: "2", by: "eve" }, new Map())).toEqual({ pin, isNew: false });
  expect(await there.get(pin.root, "triage")).toEqual(pin);
  expect(await there.getFiles(pin.root, "triage")).toEqual({ "a b.md": hashBytes(A), "SKILL.md": hashBytes(B) });
  await approvals.prune(at);
  expect(await there.getContent(hashBytes(B))).toEqual(B);

  await there.replace({ ...pin, digest: "2" }, new Map([["SKILL.md", A]]));
  await approvals.prune(at);
  expect(await here.getContent(hashBytes(B))).toBeUndefined();
  expect(await here.getContent(hashBytes(A))).toEqual(A);

  expect(await here.all()).toEqual([{ ...pin, digest: "2" }]);
  expect(await here.get("/elsewhere", "triage")).toBeUndefined();
  expect(await here.getFiles(pin.root, "other")).toEqual({});
});
