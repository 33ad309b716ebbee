import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { createQuartermaster, type Quartermaster } from "../../src/app/quartermaster.ts";
import { systemRuntime } from "../../src/app/system-runtime.ts";
import { createTokenAuthorizer } from "../../src/core/token-authorizer.ts";
import { createGateway } from "../../src/mcp/gateway/create-gateway.ts";
import type { GatewayLimits } from "../../src/mcp/gateway/gateway.ts";
import { invoke, MODERN, profileWith } from "../../src/mcp/gateway/testing.ts";

// Clients of one gateway share an actor. No client answers, withdraws or reads another's approvals or uses up its budget.

interface Place {
  readonly qm: Quartermaster;
  readonly url: string;
  readonly runs: readonly string[];
  /** Advances the clock. */
  pass(ms: number): void;
  /** Restarts the gateway on the same store. Clients see a new gateway process. */
  restart(): Promise<Place>;
}

interface PlaceOptions {
  readonly limits?: Partial<GatewayLimits>;
  readonly sessionCalls?: number;
}

async function openPlace(options: PlaceOptions = {}): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), "qm-clients-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const runs: string[] = [];
  let ahead = 0;
  const runtime = { ...systemRuntime, now: () => new Date(systemRuntime.now().getTime() + ahead) };

  async function start(): Promise<Place> {
    const calls = options.sessionCalls;
    const budgets = calls === undefined ? {} : { policy: { budgets: { session: { calls } } } };
    const qm = await createQuartermaster({ store: join(folder, "store.db"), runtime, ...budgets });
    const common = { inputSchema: { type: "object" }, scope: "generalist", description: "Writes a line." } as const;
    const handler = ({ line }: Record<string, unknown>) => {
      runs.push(String(line));
      return { line };
    };
    qm.register({ ...common, name: "pay", effect: "write", requiresApproval: true, handler });
    qm.register({ ...common, name: "look", effect: "read", handler });
    const gateway = createGateway({
      quartermaster: qm,
      runtime,
      info: { name: "gate", version: "1" },
      onProblem: () => {},
      note: (caller, event) => qm.note(event, caller),
      ...(options.limits === undefined ? {} : { limits: options.limits }),
    });
    const authorize = createTokenAuthorizer([
      ["one", profileWith({ name: "first" })],
      ["two", profileWith({ name: "second" })],
      ["three", profileWith({ name: "first" })],
    ]);
    const where = { host: "127.0.0.1", port: 0, allowedHosts: [], allowedOrigins: [], authorize };
    const { url } = await gateway.listen(where);
    let open = true;
    const close = async () => {
      if (!open) return;
      open = false;
      await gateway.close();
      await qm.close();
    };
    onTestFinished(close);
    return {
      qm,
      url,
      runs,
      pass(ms) {
        ahead += ms;
      },
      async restart() {
        await close();
        return start();
      },
    };
  }
  return start();
}

interface Who {
  readonly token?: string;
  readonly era?: "modern" | "legacy";
  readonly name?: string;
  /** The session name, sent as a header. */
  readonly session?: string;
}

async function connect({ url }: Place, { token = "one", era = "modern", name = "app", session }: Who = {}) {
  const mode = era === "legacy" ? "legacy" : { pin: MODERN };
  const client = new Client({ name, version: "1" }, { versionNegotiation: { mode } });
  const headers = {
    authorization: `Bearer ${token}`,
    ...(session === undefined ? {} : { "quartermaster-session": session }),
  };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  onTestFinished(() => client.close().catch(() => {}));
  return client;
}

async function result(client: Client, action: string, args: object = {}): Promise<Record<string, unknown>> {
  return ((await invoke(client, action, args)).structuredContent ?? {}) as Record<string, unknown>;
}

async function ask(client: Client, line = "x"): Promise<string> {
  const { approval_id } = await result(client, "tool__pay", { line });
  return String(approval_id);
}

const awaitApproval = (client: Client, id: string, wait_ms = 0) =>
  result(client, "approval__await", { approval_id: id, wait_ms });
const withdraw = (client: Client, id: string) => result(client, "approval__withdraw", { approval_id: id });

const readSessions = async ({ qm }: Place) => {
  const received = await qm.ledger.read({ type: "call.received" });
  return received.map(({ session }) => session);
};

test("runs nothing for an approval that arrives before the question", async () => {
  const place = await openPlace();
  const yes = { action: "accept", content: { decision: "approve" } };
  const params = {
    name: "invoke_action",
    arguments: { action_name: "tool__pay", args: { line: "unasked" } },
    inputResponses: { approve: yes },
    _meta: {
      "io.modelcontextprotocol/protocolVersion": MODERN,
      "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } },
    },
  };
  const response = await fetch(place.url, {
    method: "POST",
    headers: {
      authorization: "Bearer one",
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": MODERN,
      "mcp-method": "tools/call",
      "mcp-name": "invoke_action",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }),
  });

  expect(await response.json()).toMatchObject({ result: { resultType: "input_required" } });
  expect(place.runs).toEqual([]);
});

describe("an approval", () => {
  test.each([
    ["another profile with the same actor", { token: "two" }],
    ["another token of the same profile", { token: "three" }],
    ["another client with the same token", { name: "other" }],
    ["a session with another name", { session: "mine" }],
    ["a legacy session of another client", { era: "legacy", name: "other" }],
  ] as const)("is unknown to %s", async (_which, who) => {
    const place = await openPlace();
    const asker = await connect(place);
    const id = await ask(asker);
    const stranger = await connect(place, who);

    expect(await awaitApproval(stranger, id)).toMatchObject({ code: "not_found" });
    expect(await withdraw(stranger, id)).toMatchObject({ code: "not_found" });
    expect(await awaitApproval(asker, id)).toMatchObject({ status: "waiting" });
  });

  test("is unknown to another session of a host's own callers", async () => {
    const { qm } = await openPlace();
    const caller = { actor: "default", session: "a" };
    const outcome = await qm.invoke("tool__pay", { line: "x" }, { caller });
    const id = outcome.status === "waiting" ? outcome.approval.id : "none";
    const other = { actor: "default", session: "b" };

    await expect(qm.approvals.withdraw(id, other)).rejects.toMatchObject({ code: "not_found" });
    await expect(qm.approvals.outcome(id, { caller: other })).rejects.toMatchObject({ code: "not_found" });
    expect(await qm.approvals.withdraw(id, caller)).toMatchObject({ state: "expired" });
  });

  test.each(["modern", "legacy"] as const)("can be awaited by a %s client that reconnects", async (era) => {
    const place = await openPlace();
    const id = await ask(await connect(place, { era }));
    const restarted = await place.restart();

    const again = await connect(restarted, { era });
    await restarted.qm.approvals.answer(id, { decision: "approved" }, { id: "a", roles: ["approver"], via: "test" });
    await restarted.qm.approvals.run(id);

    expect(await awaitApproval(again, id, 20_000)).toMatchObject({ status: "done" });
  });

  test.each(["modern", "legacy"] as const)(
    "is reused when a %s client reconnects and repeats the call",
    async (era) => {
      const place = await openPlace();
      const id = await ask(await connect(place, { era }));

      const again = await connect(await place.restart(), { era });

      expect(await ask(again)).toBe(id);
    },
  );
});

describe("the session of a client without a connection", () => {
  test("has its own budget, which other clients do not use up", async () => {
    const place = await openPlace({ sessionCalls: 1 });
    const clients = [
      await connect(place),
      await connect(place, { name: "other" }),
      await connect(place, { token: "three" }),
      await connect(place, { session: "mine" }),
      await connect(place, { session: "mine", token: "three" }),
    ];

    const first = await Promise.all(clients.map((client) => result(client, "tool__look", { line: 1 })));
    const second = await Promise.all(clients.map((client) => result(client, "tool__look", { line: 2 })));

    expect(first).toEqual(clients.map(() => ({ line: 1 })));
    expect(second.map(({ code }) => code)).toEqual(clients.map(() => "budget_exceeded"));
    expect(new Set(await readSessions(place)).size).toBe(clients.length);
  });

  test("is not shared with another client that makes the same call", async () => {
    const place = await openPlace();

    const others = [{}, { name: "other" }, { token: "two" }, { token: "three" }, { session: "mine" }];
    const ids = await Promise.all(others.map(async (who) => ask(await connect(place, who))));

    expect(new Set(ids).size).toBe(others.length);
  });

  test("survives a restart and ends after the idle time", async () => {
    const before = await openPlace({ limits: { sessionIdleMs: 60_000 } });
    await result(await connect(before), "tool__look");
    before.pass(40_000);
    const place = await before.restart();
    await result(await connect(place), "tool__look");
    place.pass(40_000);
    await result(await connect(place), "tool__look");
    place.pass(60_001);
    await result(await connect(place), "tool__look");

    const sessions = await readSessions(place);

    expect(sessions).toHaveLength(4);
    expect(new Set(sessions.slice(0, 3)).size).toBe(1);
    expect(sessions[3]).not.toBe(sessions[0]);
  });

  test("can be named by the client in `_meta` or in a header, in both eras", async () => {
    const place = await openPlace();
    const header = await connect(place, { session: "talk-1" });
    const legacy = await connect(place, { session: "talk-1", era: "legacy", name: "other" });
    const meta = await connect(place);

    await result(header, "tool__look");
    await result(legacy, "tool__look");
    await meta.callTool({
      name: "invoke_action",
      arguments: { action_name: "tool__look", args: {} },
      _meta: { "quartermaster/session": "talk-1" },
    });

    const sessions = await readSessions(place);
    expect(sessions).toHaveLength(3);
    expect(new Set(sessions).size).toBe(1);
    expect(sessions[0]).toMatch(/^mcp:first:[0-9a-f]{16}:talk-1$/);
  });

  test.each(["", "a b", "a/b", "a:b", "x".repeat(65), "é"])("cannot be named %j", async (name) => {
    const place = await openPlace();
    const client = await connect(place);
    const call = client.callTool({
      name: "invoke_action",
      arguments: { action_name: "tool__look", args: {} },
      _meta: { "quartermaster/session": name },
    });

    await expect(call).rejects.toThrow("Invalid quartermaster/session");
    expect(place.runs).toEqual([]);
  });
});

test("ends no session of another principal when one opens many", async () => {
  const { url } = await openPlace({ limits: { sessions: 6, sessionsEach: 4 } });
  const post = (token: string, message: object, headers: Record<string, string> = {}) =>
    fetch(url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...message }),
    });
  const clientInfo = { name: "app", version: "1" };
  const initialize = { method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo } };
  const open = async (token: string) => {
    const response = await post(token, initialize);
    await response.text();
    return response.headers.get("mcp-session-id") ?? `refused with ${response.status}`;
  };
  const isOpen = async (token: string, id: string) =>
    (await post(token, { method: "ping" }, { "mcp-session-id": id })).status === 200;

  const victim = await open("one");
  const weak: string[] = [];
  for (let n = 0; n < 8; n++) weak.push(await open("two"));

  expect(await isOpen("one", victim)).toBe(true);
  expect(await Promise.all(weak.map((id) => isOpen("two", id)))).toEqual([
    ...Array(4).fill(false),
    ...Array(4).fill(true),
  ]);
  // All sessions are taken. Again, no other principal's session makes room.
  const third = [await open("three"), await open("three")];
  expect(await isOpen("three", third[1] ?? "")).toBe(true);
  expect(await isOpen("one", victim)).toBe(true);
  expect(await isOpen("two", weak[7] ?? "")).toBe(true);
});
