import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { METHOD, type MethodReport, type MethodVisit, openErrand } from "./fixtures/method-process.ts";
import { findCompiled } from "./support/compiled.ts";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function createFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-methods-crash-"));
  folders.push(folder);
  mkdirSync(join(folder, "skills/errand"), { recursive: true });
  writeFileSync(join(folder, "skills/errand/SKILL.md"), METHOD);
  return folder;
}

/** Runs a process until it ends or kills itself. Undefined: it was killed. */
async function visit(given: MethodVisit): Promise<MethodReport | undefined> {
  const script = findCompiled(new URL("fixtures/method-process.ts", import.meta.url));
  const child = spawn(process.execPath, [script, JSON.stringify(given)], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  const [, signal] = await once(child, "close");
  return signal === "SIGKILL" ? undefined : (JSON.parse(text) as MethodReport);
}

const readEffects = (folder: string) => readFileSync(join(folder, "effects.txt"), "utf8").trim().split("\n");

describe("a method whose process is killed", () => {
  test("goes on at the step it was in, and runs no call twice that can have an effect", async () => {
    const folder = createFolder();

    expect(await visit({ folder, kill: "request" })).toBeUndefined();
    expect(await visit({ folder, kill: "read" })).toBeUndefined();
    expect(await visit({ folder, kill: "deciding" })).toBeUndefined();
    expect(readEffects(folder)).toEqual(["read", "read"]);
    // It had not begun, so it is made again.
    expect(await visit({ folder, kill: "send" })).toBeUndefined();
    expect(await visit({ folder, kill: "waiting" })).toBeUndefined();
    expect(readEffects(folder)).toEqual(["read", "read", "send"]);
    expect(await visit({ folder, kill: "pay", approve: true })).toBeUndefined();
    const last = await visit({ folder, kill: "none" });

    expect(last).toMatchObject({
      status: "done",
      data: { outcome: "success", exports: { receipt: "r1" }, steps_done: 5 },
      started: 1,
      broken: 0,
    });
    expect(readEffects(folder)).toEqual(["read", "read", "send", "pay"]);
    // The approved call had begun, so nobody knows whether it took effect.
    expect(last?.shown["3"]).toEqual([expect.stringContaining("interrupted")]);
  }, 120_000);

  test("is continued by another process without its caller, which is told of the interrupted call", async () => {
    const folder = createFolder();
    expect(await visit({ folder, kill: "send" })).toBeUndefined();

    const { qm, shown } = await openErrand(folder, () => {});
    try {
      await vi.waitFor(
        async () => expect(await qm.methods.list()).toMatchObject([{ state: "waiting", step: 3 }]),
        20_000,
      );
      expect(shown["2"]).toEqual([expect.stringMatching(/was interrupted.*look before/)]);
      const [approval] = await qm.approvals.list();
      await qm.approvals.answer(
        approval?.id ?? "",
        { decision: "approved" },
        { id: "ann", roles: ["user"], via: "test" },
      );
      await vi.waitFor(async () => expect(await qm.methods.list()).toMatchObject([{ state: "done" }]), 20_000);
      const again = await qm.invoke("skill__errand", {}, { caller: { session: "s" } });
      expect(again).toMatchObject({ status: "done", data: { outcome: "success" } });
      expect(readEffects(folder)).toEqual(["read", "send", "pay"]);
    } finally {
      await qm.close();
    }
  }, 60_000);
});
