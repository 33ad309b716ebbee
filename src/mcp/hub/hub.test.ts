import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { isRunning, waitUntil } from "../../../test/fixtures/mcp-servers/stdio-fixtures.ts";
import { createTestHub, localServer, remoteServer } from "../../../test/support/mcp-hub.ts";
import { QmError } from "../../core/errors.ts";

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "hub-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const textOf = (result: object) => (result as { content: { text: string }[] }).content[0]?.text;

describe("starting", () => {
  test("starts one process for all callers at the first call", async () => {
    const { hub, call, events } = await createTestHub(localServer("plain.mjs"));
    expect(hub.status("subject")).toMatchObject({ state: "idle", calls: 0 });

    const results = await Promise.all([call("echo", { a: 1 }), call("echo", { a: 2 }), call("echo", { a: 3 })]);

    expect(results.map(textOf)).toEqual(['{"a":1}', '{"a":2}', '{"a":3}']);
    expect(hub.status("subject")).toMatchObject({ state: "ready", era: "legacy", noise: 0, calls: 0 });
    expect(events.map(({ type }) => type)).toEqual(["server.started"]);
    expect(events[0]?.data).toMatchObject({
      server: "subject",
      pid: hub.status("subject").pid,
      protocol: "2025-11-25",
    });
  });

  test("awaits onOffer before sending any request", async () => {
    const journal = join(await temporaryFolder(), "journal");
    let accept: () => void = () => undefined;
    const accepted = new Promise<void>((resolve) => {
      accept = resolve;
    });
    const learning: string[] = [];
    const { call } = await createTestHub(localServer("asking.mjs", {}, journal), {
      onOffer: async (_, offer) => {
        learning.push(...offer.tools.map(({ name }) => name));
        await accepted;
      },
    });

    const called = call("log", { line: {} });
    await waitUntil(() => learning.length > 0);
    const before = await readFile(journal, "utf8");
    accept();
    await called;

    expect(learning).toContain("log");
    expect(before).not.toContain("tools/call");
    expect(await readFile(journal, "utf8")).toContain("tools/call");
  });

  test("does not use a server whose definitions cannot be checked", async () => {
    const { call, hub } = await createTestHub(localServer("plain.mjs"), {
      onOffer: async () => {
        throw new QmError("store_failed", "the disk is full");
      },
    });

    await expect(call("echo")).rejects.toMatchObject({ code: "store_failed" });
    expect(hub.status("subject")).toMatchObject({ state: "failed", problem: "the disk is full" });
  });

  test("goes on with a start when one of its callers gives up", async () => {
    const { hub } = await createTestHub(localServer("slow-start.mjs", {}, "2000"));
    const impatient = new AbortController();

    const given = hub.connect("subject", impatient.signal);
    const waiting = hub.connect("subject");
    impatient.abort();

    await expect(given).rejects.toMatchObject({ code: "cancelled" });
    expect(hub.status("subject").state).toBe("starting");
    expect((await waiting).tools).toHaveLength(1);
  });

  test("limits concurrent starts, each until its offer is stored", async () => {
    const names = ["a", "b", "c", "d"];
    let starting = 0;
    const atOnce: number[] = [];
    const { hub } = await createTestHub(
      names.map((name) => localServer("plain.mjs", { name })),
      {
        startingAtOnce: 2,
        onOffer: async () => {
          atOnce.push(++starting);
          await new Promise((resolve) => setTimeout(resolve, 500));
          starting--;
        },
      },
    );

    await Promise.all(names.map((name) => hub.connect(name)));

    expect(atOnce).toHaveLength(4);
    expect(Math.max(...atOnce)).toBe(2);
  });

  test("ends a server that does not answer in time and reports its stderr", async () => {
    const { hub, call } = await createTestHub(localServer("hanger.mjs", { startTimeoutMs: 500 }));

    const failed = await call("echo").catch((thrown: unknown) => thrown as QmError);

    expect(failed).toMatchObject({ code: "server_failed", message: expect.stringContaining("within 500 ms") });
    expect(hub.status("subject")).toMatchObject({
      state: "failed",
      problem: expect.stringContaining("waiting for a licence"),
    });
  });

  test("reports a reference that cannot be filled and starts nothing", async () => {
    const { hub, call } = await createTestHub(localServer("plain.mjs"), {
      fill: (_, key) => {
        throw new QmError("invalid_config", `${key} refers to a variable that is not there`);
      },
    });

    await expect(call("echo")).rejects.toMatchObject({
      code: "invalid_config",
      message: "servers.subject.command refers to a variable that is not there",
    });
    expect(hub.status("subject")).not.toHaveProperty("retryAt");
  });

  test("reports an unknown server and a closed hub", async () => {
    const { hub, call } = await createTestHub(localServer("plain.mjs"));

    await expect(hub.connect("other")).rejects.toMatchObject({ code: "not_found" });
    await hub.close();
    await expect(call("echo")).rejects.toMatchObject({ code: "server_failed" });
  });
});

describe("failing", () => {
  test("fails calls at once during the backoff, except for a person's request", async () => {
    const { hub, call, events } = await createTestHub(localServer("crasher.mjs"), {
      limits: { backoff: { firstMs: 60_000, longestMs: 60_000 } },
    });

    const first = await call("echo").catch((thrown: unknown) => thrown as QmError);
    const second = await call("echo").catch((thrown: unknown) => thrown as QmError);
    const starts = events.length;
    await expect(hub.connect("subject")).rejects.toMatchObject({ message: expect.stringContaining("not tried again") });
    await expect(hub.connect("subject", undefined, true)).rejects.toMatchObject({ code: "server_failed" });

    expect(first).toMatchObject({
      code: "server_failed",
      message: expect.stringMatching(/exit code 3[\s\S]*no database/),
    });
    expect(second).toMatchObject({ message: expect.stringMatching(/not tried again for \d+ s[\s\S]*no database/) });
    expect(starts).toBe(1);
    expect(events.map(({ type }) => type)).toEqual(["server.failed", "server.failed"]);
    expect(hub.status("subject").retryAt?.getTime()).toBeGreaterThan(Date.now());
  });

  test("doubles the backoff up to a limit and retries afterwards", async () => {
    let now = 0;
    const { hub, call, events } = await createTestHub(localServer("crasher.mjs"), {
      runtime: { now: () => new Date(now), elapsed: () => now, newId: () => "id" },
      limits: { backoff: { firstMs: 1000, longestMs: 3000 } },
    });
    const waits: number[] = [];

    for (let round = 0; round < 4; round++) {
      await hub.connect("subject", undefined, true).catch(() => undefined);
      waits.push(hub.status("subject").retryAt?.getTime() ?? 0);
    }
    const failed = () => events.filter(({ type }) => type === "server.failed").length;
    now = 1400;
    await call("echo").catch(() => undefined);
    const before = failed();
    now = 3000;
    await call("echo").catch(() => undefined);

    for (const [at, [least, most]] of [
      [500, 1000],
      [1000, 2000],
      [1500, 3000],
      [1500, 3000],
    ].entries()) {
      expect(waits[at]).toBeGreaterThanOrEqual(least as number);
      expect(waits[at]).toBeLessThanOrEqual(most as number);
    }
    expect([before, failed()]).toEqual([4, 5]);
  });

  test("warns about a possible effect when the server ends during a call, and restarts it for the next", async () => {
    const { hub, call, events } = await createTestHub(localServer("crash-on-call.mjs"));
    await hub.connect("subject");
    const { pid } = hub.status("subject");

    const failed = await call("echo").catch((thrown: unknown) => thrown as QmError);
    await waitUntil(() => hub.status("subject").state === "idle");
    await hub.connect("subject");

    expect(failed).toMatchObject({
      code: "server_failed",
      message: expect.stringMatching(/exit code 7[\s\S]*panic: out of luck/),
      hint: expect.stringContaining("may have had an effect"),
    });
    expect(hub.status("subject").pid).not.toBe(pid);
    expect(events.map(({ type }) => type)).toEqual(["server.started", "server.stopped", "server.started"]);
  });

  test("backs off from a server that keeps ending without a result", async () => {
    const { hub, call } = await createTestHub(localServer("crash-on-call.mjs"), {
      limits: { backoff: { firstMs: 60_000, longestMs: 60_000 } },
    });

    for (let round = 0; round < 3; round++) {
      await call("echo").catch(() => undefined);
      await waitUntil(() => hub.status("subject").state !== "ready");
    }

    await expect(call("echo")).rejects.toMatchObject({ message: expect.stringContaining("not tried again") });
  });
});

describe("calls", () => {
  test("cancels a call on the server and leaves the server running", async () => {
    const journal = join(await temporaryFolder(), "journal");
    const { hub, call } = await createTestHub(localServer("asking.mjs", {}, journal));
    await hub.connect("subject");
    const { pid } = hub.status("subject");
    const giveUp = new AbortController();

    const held = call("hold", {}, { signal: giveUp.signal });
    await waitUntil(async () => (await readFile(journal, "utf8")).includes('"hold"'));
    giveUp.abort();

    await expect(held).rejects.toMatchObject({ code: "cancelled" });
    await waitUntil(async () => (await readFile(journal, "utf8")).includes("notifications/cancelled"));
    expect(textOf(await call("free"))).toBe('"freed them"');
    expect(hub.status("subject")).toMatchObject({ state: "ready", pid });
  });

  test("keeps the code and data of a server's error", async () => {
    const { request } = await createTestHub(localServer("plain.mjs"));

    await expect(request("resources/read", { uri: "a:b" })).rejects.toMatchObject({
      code: "action_failed",
      details: { mcp_code: -32601 },
    });
  });

  test("ignores a progress token in the caller's params", async () => {
    const journal = join(await temporaryFolder(), "journal");
    const { request } = await createTestHub(localServer("asking.mjs", {}, journal));
    const _meta = { progressToken: 0, traceparent: "00-1-2-01", "io.modelcontextprotocol/protocolVersion": "1999" };

    await request("tools/call", { name: "log", arguments: { line: {} }, _meta });

    const sent = (await readFile(journal, "utf8")).split("\n").find((line) => line.includes("tools/call")) ?? "";
    expect(JSON.parse(sent).params._meta).toEqual({ traceparent: "00-1-2-01" });
  });
});

describe("stopping", () => {
  test("stops an idle server, but not during a call", async () => {
    const { hub, call, events } = await createTestHub(localServer("asking.mjs", { idleTimeoutMs: 200 }));
    const held = call("hold");
    await waitUntil(() => hub.status("subject").calls === 1 && hub.status("subject").state === "ready");
    const { pid } = hub.status("subject");
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(hub.status("subject").state).toBe("ready");

    await call("free");
    await held;

    await waitUntil(() => hub.status("subject").state === "idle");
    expect(await isRunning(pid as number)).toBe(false);
    expect(events.at(-1)).toEqual({ type: "server.stopped", data: { server: "subject", reason: "idle" } });
  });

  test("ends calls in progress, and the next call starts the server", async () => {
    const { hub, call } = await createTestHub(localServer("asking.mjs"));
    const held = call("hold");
    await waitUntil(() => hub.status("subject").state === "ready");
    const failed = expect(held).rejects.toMatchObject({ code: "server_failed" });

    await hub.stop("subject");
    await failed;

    expect(hub.status("subject")).toMatchObject({ state: "idle", calls: 0 });
    expect(textOf(await call("free"))).toBe('"freed them"');
  });

  test("ends a start in progress", async () => {
    const { hub } = await createTestHub(localServer("hanger.mjs"));
    const starting = hub.connect("subject");
    const failed = expect(starting).rejects.toMatchObject({
      code: "server_failed",
      message: "server subject was stopped",
    });
    await waitUntil(() => hub.status("subject").state === "starting");

    await hub.stop("subject");

    await failed;
    expect(hub.status("subject").state).toBe("idle");
  });

  test("keeps unchanged servers when the configuration changes and stops the others", async () => {
    const [kept, changed, gone] = ["kept", "changed", "gone"].map((name) => localServer("plain.mjs", { name }));
    const { hub } = await createTestHub([kept, changed, gone] as never);
    const pids = await Promise.all(
      ["kept", "changed", "gone"].map(async (name) => {
        await hub.connect(name);
        return hub.status(name).pid as number;
      }),
    );

    await hub.configure([kept, { ...changed, description: "new" }] as never);

    expect(hub.status("kept")).toMatchObject({ state: "ready", pid: pids[0] });
    expect(hub.status("changed")).toMatchObject({ state: "idle" });
    expect(() => hub.status("gone")).toThrow(/no server "gone"/);
    expect(await Promise.all(pids.map(isRunning))).toEqual([true, false, false]);
  });

  test("stops all servers when the hub closes", async () => {
    const { hub, events } = await createTestHub([
      localServer("plain.mjs"),
      localServer("hanger.mjs", { name: "other" }),
    ]);
    await hub.connect("subject");
    const pid = hub.status("subject").pid as number;
    const starting = hub.connect("other").catch((thrown: unknown) => thrown as QmError);

    await hub.close();

    expect(await isRunning(pid)).toBe(false);
    expect(await starting).toMatchObject({ code: "server_failed" });
    expect(events.at(-1)).toEqual({ type: "server.stopped", data: { server: "subject", reason: "closing" } });
  });

  test("leaves nothing running after a probe", async () => {
    const { hub, offers, events } = await createTestHub([]);

    const offer = await hub.probe(localServer("plain.mjs"));

    expect(offer.tools.map(({ name }) => name)).toEqual(["echo"]);
    expect([offers, events]).toEqual([[], []]);
    await expect(hub.probe(localServer("crasher.mjs"))).rejects.toMatchObject({
      message: expect.stringContaining("no database"),
    });
    await expect(hub.probe(remoteServer("ftp://example.com"))).rejects.toMatchObject({ code: "invalid_config" });
  });
});

test("reads a changed list again before the next request", async () => {
  const { hub, call, offers } = await createTestHub(localServer("asking.mjs"));
  const changes: string[] = [];
  await hub.connect("subject");
  hub.onChange((server) => changes.push(server));

  await call("change");
  await call("log", { line: {} });

  expect(offers).toHaveLength(2);
  expect(changes).toContain("subject");
});

test("redacts the secrets of a server in its output", async () => {
  const spec = localServer("crasher.mjs");
  const secret = "no database";
  const { call } = await createTestHub(
    { ...spec, launch: { ...spec.launch, env: { TOKEN: "<secret>" } } as never },
    {
      fill: (text) => text.replace("<secret>", secret),
    },
  );

  const failed = await call("echo").catch((thrown: unknown) => thrown as QmError);

  expect(JSON.stringify((failed as QmError).toProblem())).not.toContain(secret);
  expect((failed as QmError).message).toContain("[TOKEN]");
});
