import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { ActorReport, ActorVisit } from "./fixtures/actor-process.ts";
import { findCompiled } from "./support/compiled.ts";

/** Visits one folder. Undefined: the process was killed. */
function openFolder() {
  const folder = mkdtempSync(join(tmpdir(), "qm-actor-crash-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return {
    readEffects: () => readFileSync(join(folder, "effects.txt"), "utf8").trim().split("\n"),
    async visit(given: Omit<ActorVisit, "folder">): Promise<ActorReport | undefined> {
      const script = findCompiled(new URL("fixtures/actor-process.ts", import.meta.url));
      const visit: ActorVisit = { folder, ...given };
      const child = spawn(process.execPath, [script, JSON.stringify(visit)], { stdio: ["ignore", "pipe", "inherit"] });
      let text = "";
      child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      const [, signal] = await once(child, "close");
      return signal === "SIGKILL" ? undefined : (JSON.parse(text) as ActorReport);
    },
  };
}

describe("a turn whose process is killed", () => {
  test("is continued where it was, and runs no call twice that can have an effect", async () => {
    const { visit, readEffects } = openFolder();
    const message = "errand";

    expect(await visit({ message, kill: "request" })).toBeUndefined();
    expect(await visit({ message, kill: "read" })).toBeUndefined();
    expect(await visit({ message, kill: "deciding" })).toBeUndefined();
    expect(readEffects()).toEqual(["read", "read"]);
    // It had not begun, so it is made again.
    expect(await visit({ message, kill: "send" })).toBeUndefined();
    expect(await visit({ message, kill: "waiting" })).toBeUndefined();
    expect(readEffects()).toEqual(["read", "read", "send"]);
    const waiting = await visit({ message, kill: "none" });
    expect(waiting?.envelope).toMatchObject({ turnState: "suspended" });
    expect(await visit({ message, kill: "pay", approve: true })).toBeUndefined();
    const last = await visit({ message, kill: "none" });

    expect(last).toMatchObject({
      envelope: { turnState: "complete", parts: [{ text: "Errand done." }] },
      turns: 1,
      interrupted: 0,
      broken: 0,
    });
    // The approved call had begun, so it is not known whether it took effect.
    expect(last?.shown.clerk).toEqual([expect.stringContaining("interrupted")]);
    expect(readEffects()).toEqual(["read", "read", "send", "pay"]);
  }, 120_000);

  test("keeps the results of its calls, if it dies in the next request", async () => {
    const { visit, readEffects } = openFolder();
    const message = "errand";
    await visit({ message, kill: "none" });
    expect(await visit({ message, kill: "answer", approve: true })).toBeUndefined();

    const last = await visit({ message, kill: "none" });

    expect(last).toMatchObject({ envelope: { turnState: "complete" }, shown: { clerk: ['{"did":"pay"}'] } });
    expect(readEffects()).toEqual(["read", "send", "pay"]);
  }, 60_000);

  test("keeps the result of a call while another one of the same answer runs", async () => {
    const { visit, readEffects } = openFolder();
    expect(await visit({ message: "both", kill: "stored" })).toBeUndefined();

    const last = await visit({ message: "both", kill: "none" });

    expect(last).toMatchObject({ envelope: { turnState: "complete" }, shown: { clerk: ['{"did":"send"}', "stored"] } });
    expect(readEffects()).toEqual(["send"]);
  }, 60_000);

  test("is reported to the model with the next message", async () => {
    const { visit, readEffects } = openFolder();
    expect(await visit({ message: "errand", kill: "send" })).toBeUndefined();

    const next = await visit({ message: "hello", isNew: true, kill: "none" });

    expect(next).toMatchObject({ envelope: { turnState: "complete", parts: [{ text: "Hello." }] }, interrupted: 1 });
    expect(next?.shown.clerk).toEqual([expect.stringMatching(/tool__send was interrupted.*look before/)]);
    expect(readEffects()).toEqual(["read", "send"]);
  }, 60_000);

  test("is continued with the turn that it had delegated", async () => {
    const { visit, readEffects } = openFolder();
    const message = "delegate";

    expect(await visit({ message, kill: "send" })).toBeUndefined();
    const waiting = await visit({ message, kill: "none" });

    expect(waiting).toMatchObject({ envelope: { actor: "clerk", turnState: "suspended" }, turns: 2 });
    const last = await visit({ message, kill: "none", approve: true });

    expect(last).toMatchObject({
      envelope: { actor: "clerk", turnState: "complete", parts: [{ text: "Delegated." }] },
      shown: { teller: ['{"did":"pay"}'], clerk: [expect.stringContaining("Paid.")] },
      turns: 2,
      broken: 0,
    });
    expect(readEffects()).toEqual(["send", "pay"]);
  }, 60_000);

  test("does not begin a turn again that another actor has ended", async () => {
    const { visit, readEffects } = openFolder();
    const message = "hand over";

    expect(await visit({ message, kill: "handed" })).toBeUndefined();
    const last = await visit({ message, kill: "none" });

    expect(last).toMatchObject({ envelope: { turnState: "complete", parts: [{ text: "Handed over." }] }, turns: 2 });
    expect(readEffects()).toEqual(["send"]);
  }, 60_000);
});
