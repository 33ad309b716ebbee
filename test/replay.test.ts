import { createHook } from "node:async_hooks";
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { cleanUp, qm as command, createTestFolder, eventTypes } from "../src/cli/testing.ts";
import { annotate } from "../src/distribution/annotated-record.ts";
import { createQuartermaster, type PolicyOptions, QmError, type Quartermaster } from "../src/index.ts";

/** The async resources a process needs to reach anything outside itself. */
const OUTWARD = /^(?:TCP|PIPE|PROCESS|UDP|TLS|HTTP|GETADDRINFO|GETNAMEINFO|QUERY)/;

/** Runs `work` and reports which kinds of sockets, processes and lookups it created. */
async function trackOutward<T>(
  work: () => Promise<T>,
): Promise<{ readonly made: readonly string[]; readonly result: T }> {
  const made: string[] = [];
  const hook = createHook({
    init(_id, type) {
      if (OUTWARD.test(type)) made.push(type);
    },
  }).enable();
  try {
    return { result: await work(), made };
  } finally {
    hook.disable();
  }
}

const POLICY: PolicyOptions = {
  rules: [
    { name: "no-secrets", rule: "'secret' in tool.tags", effect: "hide" },
    { name: "no-deleting", rule: "'destructive' in tool.tags", effect: "deny", reason: "Nothing is deleted here." },
    { name: "gold-only", rule: "'gold' in tool.tags && ctx.user.tier != 'gold'", effect: "deny" },
    { name: "large-sums", rule: "tool.entry == 'pay' && args.amount > 100.0", effect: "ask" },
  ],
  actors: [
    { name: "default", tools: ["*"] },
    { name: "clerk", tools: ["*", "ledger_entry"] },
    { name: "guest", tools: ["read_*"] },
  ],
  budgets: { session: { calls: 130 } },
};

const ran: string[] = [];
let served = 0;
const server = createServer((_request, response) => {
  served++;
  response.end('{"ok":true}');
});

beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
afterAll(() => void server.close());
afterEach(cleanUp);

function registerTools(qm: Quartermaster): void {
  const common = { description: "Does its part.", scope: "generalist", effect: "read" } as const;
  const any = z.looseObject({});
  const tool = (name: string, more: object = {}, answer: () => unknown = () => ({ name })): void => {
    qm.register({
      ...common,
      name,
      inputSchema: any,
      ...more,
      handler: () => {
        ran.push(name);
        return answer();
      },
    });
  };
  for (const name of ["read_a", "read_b", "read_c", "read_d"]) tool(name);
  tool("add", { effect: "pure", inputSchema: z.object({ a: z.number(), b: z.number().default(1) }) });
  tool("note", { effect: "write" });
  tool("remove", { effect: "write", tags: ["destructive"] });
  tool("vault", { tags: ["secret"] });
  tool("lounge", { tags: ["gold"] });
  tool("pay", { effect: "external", inputSchema: z.object({ amount: z.number() }) });
  tool("deploy", { effect: "stateful", requiresApproval: true });
  tool("refund", { effect: "external", requiresApproval: { autoApproveIf: "args.amount < 50.0" } });
  tool("erase", { effect: "write", requiresApproval: () => "admin" });
  tool("fails", {}, () => {
    throw new Error("it broke");
  });
  tool("refuses", {}, () => {
    throw new QmError("conflict", "somebody else has it");
  });
  tool("hangs", { timeout: 5 }, () => new Promise(() => {}));
  tool("large", { outputSchema: z.object({ text: z.string() }) }, () => ({ text: "x".repeat(20_000) }));
  tool("malformed", { outputSchema: z.object({ text: z.string() }) }, () => ({ text: 1 }));
  tool("keyed", { outputSchema: z.object({ name: z.string(), key: z.object({}) }) }, () =>
    annotate({ name: "a", key: {} }, { key: { hidden: true } }),
  );
  tool("fetches", { effect: "external" }, async () => {
    const { port } = server.address() as AddressInfo;
    return (await fetch(`http://127.0.0.1:${port}/`)).json();
  });
  tool("starts", { effect: "stateful" }, async () => {
    const { stdout } = await promisify(execFile)(process.execPath, ["-e", "console.log(42)"]);
    return stdout.trim();
  });
  qm.register({
    ...common,
    name: "around",
    inputSchema: any,
    effect: "write",
    async handler({ inner }, { invoke }) {
      ran.push("around");
      const outcomes = await Promise.all((inner as string[]).map((name) => invoke(`tool__${name}`, {})));
      return outcomes.map(({ status }) => status);
    },
  });
  qm.register({
    ...common,
    name: "ledger_entry",
    scope: "specialist",
    justification: "Only the clerk keeps the books of this house.",
    inputSchema: any,
    handler: () => {
      ran.push("ledger_entry");
      return "entered";
    },
  });
}

type Replayed = Awaited<ReturnType<Quartermaster["replay"]>>["calls"][number];

const approver = { id: "ann", roles: ["admin"], via: "library" };
const answerWith = (decision: "approved" | "denied") => async () => ({
  decision,
  by: approver.id,
  roles: approver.roles,
});

/** Records 220 calls of every kind, plus nested ones, in one session. */
async function recordCalls(qm: Quartermaster): Promise<void> {
  const caller = (index: number, more: object = {}) => ({ session: "s", turn: `t${index % 7}`, ...more });
  const plain = [
    ["read_a", {}],
    ["tool.read.b", {}],
    ["READ_C", { x: 1 }],
    ["tool__read_d", '{"x":2}'],
    ["tool__add", { a: "4" }],
    ["tool__add", { a: "four" }],
    ["tool__note", { text: "hello", password: "hunter2hunter2" }],
    ["tool__remove", {}],
    ["tool__vault", {}],
    ["tool__nothing_like_it", {}],
    ["tool__pay", { amount: 5 }],
    ["tool__refund", { amount: 5 }],
    ["tool__fails", {}],
    ["tool__refuses", {}],
    ["tool__malformed", {}],
    ["tool__keyed", {}],
    ["tool__around", { inner: ["read_a", "remove", "fails"] }],
  ] as const;
  let made = 0;
  const call = async (name: string, args: unknown, options: object = {}, who: object = {}): Promise<void> => {
    await qm.invoke(name, args, { caller: caller(made++, who), ...options });
  };

  await call("tool__fetches", {});
  await call("tool__starts", {});
  await call("tool__hangs", {});
  await call("tool__large", {});
  await call("tool__lounge", {}, {}, { user: { id: "u1", tier: "gold" } });
  await call("tool__lounge", {}, {}, { user: { id: "u2", tier: "tin" } });
  await call("tool__read_a", {}, {}, { actor: "guest" });
  await call("tool__note", {}, {}, { actor: "guest" });
  await call("tool__note", {}, {}, { actor: "nobody" });
  await call("ledger_entry", {}, {}, { actor: "clerk" });
  await call("ledger_entry", {});
  await call("tool__deploy", { to: "live" }, { ask: answerWith("approved") });
  await call("tool__deploy", { to: "moon" }, { ask: answerWith("denied") });
  await call("tool__erase", {}, { ask: answerWith("approved") });
  await call("tool__refund", { amount: 70 }, { ask: answerWith("approved") });
  await call("tool__pay", { amount: 500 }, { ask: answerWith("denied") });
  await call("tool__deploy", { to: "later" });
  await call("tool__deploy", { to: "never" });
  await call("tool__deploy", { to: "whenever" });
  for (const approval of await qm.approvals.list({ state: "pending" })) {
    const { to } = approval.args as { to?: string };
    if (to === "later") await qm.approvals.answer(approval.id, { decision: "approved" }, approver);
    if (to === "never") await qm.approvals.answer(approval.id, { decision: "denied" }, approver);
  }
  await qm.approvals.run();
  // Repeating the call returns the outcome of the first one.
  await call("tool__deploy", { to: "later" }, {}, { turn: "t2" });
  while (made < 150) {
    const [name, args] = plain[made % plain.length] ?? plain[0];
    await call(name, args);
  }
  // In parallel at the end of the budget, so some calls are decided before others are charged.
  await Promise.all(Array.from({ length: 40 }, () => call("tool__read_a", {})));
  while (made < 220) await call("tool__read_a", {});
}

async function recordedQuartermaster(): Promise<Quartermaster> {
  const qm = await createQuartermaster({ policy: POLICY, approvals: { worker: false } });
  registerTools(qm);
  await recordCalls(qm);
  return qm;
}

describe("a replay of more than 200 calls", () => {
  let qm: Quartermaster;
  let recording: readonly string[];
  let calls: number;

  beforeAll(async () => {
    ({ made: recording, result: qm } = await trackOutward(recordedQuartermaster));
    calls = (await qm.ledger.read({ session: "s", type: "call.received", limit: 1000 })).length;
  });
  afterAll(() => qm.close());

  test("starts from calls with every outcome, some of which reached outside", async () => {
    const ended = await qm.ledger.read({ session: "s", type: "call.ended", limit: 1000 });
    const codes = new Set(ended.map(({ data }) => (data as { code?: string }).code ?? "done"));

    expect(calls).toBeGreaterThan(200);
    expect([...codes].sort()).toEqual([
      "action_failed",
      "budget_exceeded",
      "conflict",
      "denied",
      "done",
      "invalid_arguments",
      "invalid_output",
      "timed_out",
      "tool_denied",
      "unknown_action",
      "unknown_actor",
    ]);
    expect(recording).toContain("TCPCONNECTWRAP");
    expect(recording).toContain("PROCESSWRAP");
    expect(served).toBe(1);
  });

  test("repeats every decision without running a call or reaching outside", async () => {
    const before = { ran: ran.length, events: (await qm.ledger.heads()).map(({ hash }) => hash) };

    const { result: report, made } = await trackOutward(() => qm.replay({ session: "s" }));

    expect(report.calls.filter(({ same }) => !same)).toEqual([]);
    expect(report.summary).toEqual({ calls, same: calls, different: 0, uncertain: 0, realCalls: 0 });
    expect(made).toEqual([]);
    expect(ran.length).toBe(before.ran);
    expect(served).toBe(1);
    expect((await qm.ledger.heads()).map(({ hash }) => hash)).toEqual(before.events);
  });

  test("can be limited to one turn", async () => {
    const received = await qm.ledger.read({ session: "s", type: "call.received", limit: 1000 });
    const ofTurn = received.filter(({ turn }) => turn === "t3");

    const report = await qm.replay({ turn: "t3" });

    expect(report).toMatchObject({ session: "s", turn: "t3" });
    expect(report.calls.map(({ callId }) => callId)).toEqual(ofTurn.map(({ callId }) => callId));
    expect(report.summary.different).toBe(0);
  });

  test("under a stricter policy differs exactly where that policy applies", async () => {
    const stricter: PolicyOptions = {
      ...POLICY,
      tools: { denied: ["tool__read_d"] },
      rules: [
        ...(POLICY.rules ?? []),
        { name: "nothing-outside", rule: "tool.effect == 'external'", effect: "deny" },
        { name: "ask-first", rule: "tool.entry == 'around'", effect: "ask" },
      ],
    };

    const { result: report, made } = await trackOutward(() => qm.replay({ session: "s" }, { policy: stricter }));

    const unchanged = await qm.replay({ session: "s" });
    const getAction = ({ asked, recorded }: Replayed) => recorded.action ?? asked;
    const expected = new Map<string, string>();
    for (const call of unchanged.calls) {
      const { action, code } = call.recorded;
      if (code === "budget_exceeded") continue;
      if (call.parent !== undefined) expected.set(call.callId, "not made now");
      else if (action === "tool__read_d") expected.set(call.callId, "action hidden now, decision, status");
      else if (action === "tool__around") expected.set(call.callId, "decision, status");
      else if (["tool__pay", "tool__refund", "tool__fetches"].includes(String(action)))
        expected.set(call.callId, code === "tool_denied" ? "decision, code" : "decision, status");
    }
    const differing = report.calls.filter(
      ({ differs, recorded }) => differs.length > 0 && recorded.code !== "budget_exceeded",
    );
    expect(new Map(differing.map(({ callId, differs }) => [callId, differs.join(", ")]))).toEqual(expected);
    expect(new Set(differing.map(getAction))).toContain("tool__fetches");
    expect(expected.size).toBeGreaterThan(40);
    expect(made).toEqual([]);
    // Newly denied calls no longer use the budget. As many calls as they freed now fit, and no more.
    const wasCharged = ({ recorded: { decision, status } }: Replayed) =>
      decision !== undefined && (status === "done" || status === "failed");
    const refused = report.calls.filter(({ recorded }) => recorded.code === "budget_exceeded");
    const freed = refused.filter(({ replayed }) => replayed.status === "unknown");
    const missed = differing.filter(wasCharged);
    expect(freed).toHaveLength(Math.min(missed.length, refused.length));
    expect(refused.length).toBeGreaterThan(freed.length);
  });

  test("marks decisions that depend on redacted arguments as uncertain", async () => {
    const byContent: PolicyOptions = {
      ...POLICY,
      rules: [...(POLICY.rules ?? []), { rule: "tool.entry == 'note' && args.password != 'right'", effect: "deny" }],
    };

    const { calls: replayed, summary } = await qm.replay({ session: "s" }, { policy: byContent });

    const notes = replayed.filter(({ asked, recorded }) => asked === "tool__note" && recorded.status === "done");
    expect(notes.length).toBeGreaterThan(5);
    expect(new Set(notes.map(({ uncertain }) => uncertain))).toEqual(new Set(["arguments were redacted"]));
    // The same number of other calls now fits within the budget.
    expect(summary).toMatchObject({ different: notes.length, uncertain: notes.length });
  });

  test("reports removed and changed actions", async () => {
    qm.unregister("read_b");
    qm.unregister("read_c");
    qm.register({
      name: "read_c",
      description: "Reads another c.",
      scope: "generalist",
      effect: "read",
      inputSchema: z.looseObject({}),
      handler: () => ran.push("read_c"),
    });

    const { calls: replayed } = await qm.replay({ session: "s" });

    const reasons = (action: string) =>
      new Set(replayed.filter(({ recorded }) => recorded.action === action).map(({ differs }) => differs.join(", ")));
    expect(reasons("tool__read_b")).toEqual(new Set(["action unknown now, decision, status"]));
    expect(reasons("tool__read_c")).toEqual(new Set(["definition changed"]));
    expect(reasons("tool__read_d")).toEqual(new Set([""]));
  });

  test("rejects an unknown session or turn, and an ambiguous turn", async () => {
    await expect(qm.replay({ session: "none" })).rejects.toMatchObject({ code: "not_found" });
    await expect(qm.replay({ turn: "none" })).rejects.toMatchObject({ code: "not_found" });
    await qm.invoke("tool__read_a", {}, { caller: { session: "other", turn: "t3" } });
    await expect(qm.replay({ turn: "t3" })).rejects.toMatchObject({ code: "invalid_arguments" });
    expect((await qm.replay({ turn: "t3", session: "other" })).summary.calls).toBe(1);
  });
});

describe("qm replay", () => {
  const CONFIG = `
providers: { file: { read_only: false } }
policy:
  rules:
    - { name: no-deleting, rule: "'destructive' in tool.tags", effect: deny }
servers:
  never: { command: "${process.execPath}", args: ["-e", "0"] }
`;

  async function recordSession(): Promise<string> {
    const cwd = await createTestFolder({
      "quartermaster.yaml": CONFIG,
      "stricter.yaml": `${CONFIG.replace("servers:", "    - { name: look-only, rule: \"tool.effect == 'write'\", effect: deny }\nservers:")}`,
      "a.txt": "hello\n",
    });
    await command(cwd, ["invoke", "file__read", '{"path":"a.txt"}', "--session", "chat"]);
    await command(cwd, ["invoke", "file__write", '{"path":"b.txt","content":"x"}', "--session", "chat"]);
    await command(cwd, ["invoke", "file__delete", '{"path":"a.txt"}', "--session", "chat"]);
    await command(cwd, ["invoke", "file.raed", "{}", "--session", "chat"]);
    return cwd;
  }

  test("reports no differences for the configured store and starts nothing", async () => {
    const cwd = await recordSession();

    const before = await eventTypes(cwd);
    const { result, made } = await trackOutward(() => command(cwd, ["replay", "chat"]));

    expect(result.out).toMatch(
      /^4 calls of session chat under policy \w+: 4 the same, 0 different\. Nothing was run\.\n$/,
    );
    expect(result.code).toBe(0);
    expect(made).toEqual([]);
    expect(await eventTypes(cwd)).toEqual(before);
    expect(before).toContain("call.received");
  });

  test("shows what another policy would decide and exits with 1", async () => {
    const cwd = await recordSession();

    const shown = await command(cwd, ["replay", "chat", "--policy", "stricter.yaml"]);
    const asJson = JSON.parse((await command(cwd, ["replay", "chat", "--policy", "stricter.yaml", "--json"])).out);
    const all = JSON.parse((await command(cwd, ["replay", "chat", "--all", "--json"])).out);

    expect(shown.code).toBe(1);
    expect(shown.out).toMatch(
      /file__write +allow: done +deny by tag-rules \(look-only\): refused \(denied\) +decision, status/,
    );
    expect(asJson.summary).toEqual({ calls: 4, same: 3, different: 1, uncertain: 0, realCalls: 0 });
    expect(asJson.calls).toHaveLength(1);
    expect(all.calls).toHaveLength(4);
  });

  test("exits with 4 for an unknown session or turn and explains how to name either", async () => {
    const cwd = await recordSession();

    const nothing = await command(cwd, ["replay", "chta"]);
    const noTurn = await command(cwd, ["replay", "chat", "--turn"]);

    expect([nothing.code, noTurn.code]).toEqual([4, 4]);
    expect(nothing.err).toMatch(/neither a session nor a turn "chta"[\s\S]*--turn[\s\S]*--session/);
    expect(noTurn.err).toMatch(/no turn "chat"[\s\S]*qm replay <session>/);
    expect((await command(cwd, ["replay", "chat", "--policy", "none.yaml"])).code).toBe(2);
  });
});
