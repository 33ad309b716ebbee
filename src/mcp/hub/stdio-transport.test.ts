import { chmod, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  fixturePath,
  isRunning,
  launchFixture,
  openTestTransport,
  waitUntil,
} from "../../../test/fixtures/mcp-servers/stdio-fixtures.ts";
import type { QmError } from "../../core/errors.ts";
import { createWatchdog } from "./watchdog.ts";

const QUICK = { closeMs: 200, termMs: 200 };

async function temporaryFolder(): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "qm-stdio-")));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

describe("a server over stdio", () => {
  test("starts with few inherited variables, its own variables and folder, and no shell", async () => {
    const cwd = await temporaryFolder();
    const args = ["$HOME; echo *", "a b", ""];
    const { transport, ask, closed } = openTestTransport(
      { ...launchFixture("plain.mjs", ...args), env: { OWN: "yes" }, cwd },
      { environment: { PATH: process.env.PATH, GITHUB_TOKEN: "secret", OTEL_SERVICE_NAME: "us" } },
    );
    await transport.start();

    expect(await ask("test/environment")).toEqual({ variables: { PATH: process.env.PATH, OWN: "yes" }, cwd, args });
    await transport.close();
    expect(await transport.ended).toEqual({ code: 0, signal: null });
    expect([closed(), transport.noise]).toEqual([1, 0]);
  });

  test("may be noisy", async () => {
    const lines: string[] = [];
    const { transport, ask } = openTestTransport(launchFixture("noisy.mjs"), { log: (line) => lines.push(line) });
    await transport.start();

    expect(await ask("initialize")).toMatchObject({ serverInfo: { name: "fixture" } });
    expect(await ask("tools/call", { arguments: { a: "ä€𝄞" } })).toEqual({
      content: [{ type: "text", text: '{"a":"ä€𝄞"}' }],
    });
    expect(transport.noise).toBe(5);
    expect(transport.noiseSamples).toContain('{"level":"info","msg":"listening"}');
    await waitUntil(() => lines.length > 0);
    expect([lines, transport.stderrTail()]).toEqual([["about to answer"], "about to answer"]);
  });

  test("may print a banner without a line end", async () => {
    const { transport, ask } = openTestTransport(launchFixture("banner.mjs"));
    await transport.start();

    expect(await ask("initialize")).toMatchObject({ serverInfo: { name: "fixture" } });
    expect(await ask("ping")).toEqual({});
    expect([transport.noise, transport.noiseSamples[0]?.slice(0, 22)]).toEqual([1, "* ready {on stdio} * {"]);
  });

  test("may start slowly without losing messages", async () => {
    const { transport, ask } = openTestTransport(launchFixture("slow-start.mjs", "500"));
    await transport.start();

    expect(await ask("ping")).toEqual({});
  });

  test("may answer with 30 MB on one line", async () => {
    const { transport, ask } = openTestTransport(launchFixture("huge.mjs"));
    await transport.start();
    const { content } = await ask("tools/call", { arguments: { bytes: 30_000_000 } });

    expect((content as { text: string }[])[0]?.text).toBe("ä".repeat(15_000_000));
  });

  test("stays alive after an answer that is too long", async () => {
    const { transport, ask, problems } = openTestTransport(launchFixture("huge.mjs"), {
      limits: { lineBytes: 1_000_000 },
    });
    await transport.start();

    expect(await ask("tools/call", { arguments: { bytes: 2_000_000 } })).toMatchObject({ error: { code: -32603 } });
    expect(problems.map((problem) => (problem as QmError).code)).toEqual(["too_large"]);
    expect(await ask("ping")).toEqual({});
  });

  test.each(["x", "{", '{"id":'])("may write %s endlessly without taking memory", async (garbage) => {
    const { transport } = openTestTransport(launchFixture("garbage.mjs", garbage), {
      limits: { lineBytes: 4 * 1024 * 1024 },
    });
    await transport.start();

    await waitUntil(() => transport.noise === 1);
    await transport.close();
    expect([transport.noise, transport.noiseSamples]).toEqual([1, [expect.stringContaining(garbage)]]);
  });
});

describe("a server that ends by itself", () => {
  test("explains itself on stderr", async () => {
    const lines: string[] = [];
    const { transport, closed } = openTestTransport(launchFixture("crasher.mjs", "4"), {
      log: (line) => lines.push(line),
    });
    await transport.start();

    expect(await transport.ended).toEqual({ code: 4, signal: null });
    expect(transport.stderrTail()).toBe("loading\nfatal: no database at localhost");
    expect(lines).toEqual(["loading", "fatal: no database at localhost"]);
    expect(closed()).toBe(1);
    await expect(transport.send({ jsonrpc: "2.0", method: "ping" })).rejects.toMatchObject({ code: "server_failed" });
  });

  test("may omit its last line end", async () => {
    const { transport, messages, closed } = openTestTransport(launchFixture("last-words.mjs"));
    await transport.start();
    await transport.ended;

    expect([messages, closed()]).toEqual([[{ jsonrpc: "2.0", method: "notifications/bye" }], 1]);
  });

  test("during a call is noticed, with all its output", async () => {
    const { transport, ask, closed } = openTestTransport(launchFixture("crash-on-call.mjs"));
    await transport.start();
    await ask("ping");
    await transport.send({ jsonrpc: "2.0", id: "x", method: "tools/call", params: {} });

    expect(await transport.ended).toEqual({ code: 7, signal: null });
    expect([closed(), transport.stderrTail()]).toEqual([1, "panic: out of luck"]);
  });

  test("ends its children too, even if they hold its stdout and ignore signals", async () => {
    const { transport, ask } = openTestTransport(launchFixture("family.mjs"), { limits: QUICK });
    await transport.start();
    const { pid } = (await ask("test/grandchild")) as { pid: number };
    expect(await isRunning(pid)).toBe(true);
    await transport.send({ jsonrpc: "2.0", id: "x", method: "test/leave" });

    expect(await transport.ended).toEqual({ code: 5, signal: null });
    expect(await isRunning(pid)).toBe(false);
  });

  test("reports the signal that killed it", async () => {
    const { transport, ask } = openTestTransport(launchFixture("plain.mjs"));
    await transport.start();
    await ask("ping");
    process.kill(transport.pid ?? 0, "SIGKILL");

    expect(await transport.ended).toEqual({ code: null, signal: "SIGKILL" });
  });

  test("is ended when it only closes its stdout", async () => {
    const { transport, closed } = openTestTransport(launchFixture("closes-stdout.mjs"), { limits: QUICK });
    await transport.start();

    expect(await transport.ended).toEqual({ code: null, signal: "SIGTERM" });
    expect(closed()).toBe(1);
  });
});

describe("closing", () => {
  test("ends a server that ignores its stdin's end and SIGTERM, with its children", async () => {
    const { transport, ask, closed } = openTestTransport(launchFixture("family.mjs", "stubborn"), { limits: QUICK });
    await transport.start();
    const server = transport.pid ?? 0;
    const { pid } = (await ask("test/grandchild")) as { pid: number };
    await Promise.all([transport.close(), transport.close()]);

    expect(await transport.ended).toEqual({ code: null, signal: "SIGKILL" });
    expect([await isRunning(server), await isRunning(pid), closed()]).toEqual([false, false, 1]);
  });

  test("ends a server that neither answers nor reads, and settles pending sends", async () => {
    const { transport } = openTestTransport(launchFixture("deaf.mjs"), {
      limits: { ...QUICK, unreadBytes: 1_000_000 },
    });
    await transport.start();
    const params = { text: "x".repeat(2_000_000) };
    const sent = transport.send({ jsonrpc: "2.0", id: 1, method: "ping", params }).catch((thrown) => thrown);
    await expect(transport.send({ jsonrpc: "2.0", id: 2, method: "ping" })).rejects.toMatchObject({
      code: "server_failed",
      message: "server fixture does not read its messages",
    });
    await transport.close();

    expect(await sent).toMatchObject({ code: "server_failed" });
    expect(await transport.ended).toEqual({ code: null, signal: "SIGTERM" });
  });

  test("shows an unfinished stderr line", async () => {
    const { transport } = openTestTransport(launchFixture("hanger.mjs"));
    await transport.start();
    await waitUntil(() => transport.stderrTail() === "waiting for a licence…");
  });

  test("works before the start", async () => {
    const { transport, closed } = openTestTransport(launchFixture("plain.mjs"));
    await transport.close();

    expect(await transport.ended).toEqual({ code: null, signal: null });
    expect([closed(), transport.pid]).toEqual([1, undefined]);
    await expect(transport.start()).rejects.toMatchObject({ code: "internal" });
  });

  test("waits for the process record, which may fail", async () => {
    const seen: string[] = [];
    let goOn = () => {};
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const { transport } = openTestTransport(launchFixture("plain.mjs"), {
      async onStarted(pid) {
        await held;
        seen.push(`started ${pid}`);
        throw new Error("full");
      },
      onEnded(pid) {
        seen.push(`ended ${pid}`);
        throw new Error("full");
      },
    });
    await transport.start();
    const closed = transport.close();
    await waitUntil(async () => !(await isRunning(transport.pid ?? 0)));
    goOn();
    await closed;

    expect(seen).toEqual([`started ${transport.pid}`, `ended ${transport.pid}`]);
  });

  test("leaves no watchdog, also after a failed start", async () => {
    const watchdog = createWatchdog(process.env, process.platform);
    const { transport } = openTestTransport(launchFixture("plain.mjs"), { watchdog });
    await transport.start();
    expect(watchdog.pid).toBeGreaterThan(0);
    await transport.close();
    expect(watchdog.pid).toBeUndefined();
    const failing = openTestTransport({ ...launchFixture("plain.mjs"), command: "no-such-program" }, { watchdog });
    await expect(failing.transport.start()).rejects.toMatchObject({ code: "server_failed" });

    expect(watchdog.pid).toBeUndefined();
  });
});

describe("a server that cannot be started", () => {
  const SECRET = "sk-not-to-be-shown";
  const failing = async (launch: Partial<ReturnType<typeof launchFixture>> & { cwd?: string }) => {
    const { transport } = openTestTransport({
      ...launchFixture("plain.mjs", SECRET),
      env: { API_KEY: SECRET },
      ...launch,
    });
    const thrown: QmError = await transport.start().catch((thrown) => thrown);
    expect(await transport.ended).toEqual({ code: null, signal: null });
    expect(JSON.stringify([thrown.message, thrown.hint, thrown.details, thrown.cause ?? null])).not.toContain(SECRET);
    return [thrown.code, thrown.message, thrown.hint];
  };

  test("reports a missing program", async () => {
    expect(await failing({ command: "no-such-program" })).toEqual([
      "server_failed",
      "server fixture could not be started: there is no program `no-such-program`",
      expect.stringContaining("Install no-such-program, put it on the PATH"),
    ]);
  });

  test("reports a missing folder", async () => {
    const cwd = join(await temporaryFolder(), "gone");

    expect(await failing({ cwd })).toEqual([
      "server_failed",
      `server fixture could not be started: its folder ${cwd} does not exist`,
      "Create the folder, or correct `cwd`.",
    ]);
  });

  test("reports missing permission", async () => {
    const command = join(await temporaryFolder(), "server");
    await writeFile(command, "");
    await chmod(command, 0o600);

    expect((await failing({ command }))[1]).toBe(`server fixture could not be started: \`${command}\` may not be run`);
  });

  test("reports an argument that the system refuses", async () => {
    const [code, message] = await failing({ args: [fixturePath("plain.mjs"), `${SECRET}\0`] });

    expect([code, message]).toEqual(["server_failed", "server fixture could not be started: ERR_INVALID_ARG_VALUE"]);
  });
});
