import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { openGate } from "../src/mcp/gateway/testing.ts";
import {
  ADD,
  add,
  answering,
  awaited,
  builtCommand,
  type Elicited,
  type Gate,
  invoke,
  openWorkplace,
  type Result,
  request,
  type Serving,
  says,
  type Workplace,
  waitingId,
} from "./fixtures/approval-workplace.ts";

// Calls that need approval, through gateways in separate processes, from clients of both SDKs. For every approver and every
// channel, the call runs at most once. The lines of a file count the runs.

const tokens = { ANN: "token-of-ann-alone", BEA: "token-of-bea-alone", PASSED: "token-of-passed" };
const env = (name: keyof typeof tokens) => `\${secret:${name}}`;
const config = {
  providers: { file: { read_only: false } },
  policy: {
    rules: [
      { name: "writing", rule: "tool.name == 'file__write'", effect: "ask", reason: "Writing is looked at." },
      { name: "reading", rule: "tool.name == 'mcp__counting__resources/read'", effect: "ask" },
      { name: "deleting", rule: "tool.name == 'file__delete'", effect: "ask", level: "admin" },
    ],
  },
  approvals: {
    public_url: "https://qm.example",
    approvers: {
      ann: { roles: ["approver"], token: env("ANN") },
      bea: { roles: ["approver", "admin"], token: env("BEA") },
    },
  },
  gateway: { profiles: { default: {}, passed: { pass_through: ["counting"], token: env("PASSED") } } },
};

let command: Awaited<ReturnType<typeof builtCommand>>;
let place: Workplace;
let serving: Serving;

beforeAll(async () => {
  command = await builtCommand();
  place = await openWorkplace(command.bin, config, tokens);
  serving = await place.serve();
});

afterAll(async () => {
  await place?.close();
  await command?.remove();
});

const approveAs = (token: string, id: string, ...more: string[]) =>
  place.qmAs(token, "approvals", "approve", id, "--yes", ...more);
const approve = (id: string, ...more: string[]) => approveAs(tokens.ANN, id, ...more);
const transports = ["stdio", "http"] as const;
const gates = { stdio: () => ({}), http: () => serving } satisfies Record<string, () => Gate>;

describe("approvals in the modern era", () => {
  const refused = async (trying: Promise<unknown>) =>
    expect(await trying.catch((thrown: unknown) => thrown)).toMatchObject({ code: -32602 });

  test.each(transports)("over %s, runs an approved call once", async (transport) => {
    const heard: string[] = [];
    const client = await place.modern(gates[transport](), (message) => {
      heard.push(message);
      return says("approve");
    });
    const path = `modern-${transport}.txt`;

    expect(await add(client, path)).toMatchObject({ structuredContent: { line: path } });
    const wrote = await invoke(client, "file__write", { path, content: "hello" });

    expect(wrote.structuredContent).toMatchObject({ path, created: true });
    expect([place.times(path), place.written(path)]).toEqual([1, "hello"]);
    expect(heard).toHaveLength(2);
    expect(heard[1]).toContain("May file__write run? Writing is looked at.");
    expect(heard[1]).toContain(JSON.stringify({ path, content: "hello", create_parents: true }));
  });

  test.each([
    ["denies it", says("deny", "not today"), "not today"],
    ["declines", { action: "decline" }, "denied"],
  ] as const)("reports the denial to the model when a person %s", async (what, answer, told) => {
    const client = await place.modern(serving, () => answer);
    const path = `${what}.txt`;

    for (const result of [await add(client, what), await invoke(client, "file__write", { path, content: "no" })]) {
      expect(result).toMatchObject({ isError: true, structuredContent: { status: "refused", code: "tool_denied" } });
      expect(result.content[0]?.text).toContain(told);
      expect(result.content[0]?.text).toContain("It was not run.");
    }
    expect([place.times(what), place.written(path)]).toEqual([0, undefined]);
  });

  test.each([
    ["cancels", { action: "cancel" }],
    ["says neither", { action: "accept", content: { decision: "perhaps" } }],
  ] as const)("leaves the call waiting when a person %s", async (what, answer) => {
    const client = await place.modern(serving, () => answer);

    const id = waitingId(await add(client, what));

    expect(await place.approval(what)).toMatchObject({ id });
    expect(place.times(what)).toBe(0);
  });

  test("accepts an answer once, from the client that asked and for the same call", async () => {
    const client = await place.modern(serving, () => says("approve"));
    const stranger = await place.modern({ ...serving, token: tokens.PASSED }, () => says("approve"));
    const asked = await request(client, "forged");
    const yes = answering(asked, says("approve"));
    const [payload = "", mac = ""] = asked.requestState.split(".");
    const flipped = `${payload}.${mac.startsWith("A") ? "B" : "A"}${mac.slice(1)}`;
    const longer = JSON.parse(Buffer.from(payload, "base64url").toString()).with(2, Date.now() * 2);
    const forged = `${Buffer.from(JSON.stringify(longer)).toString("base64url")}.${mac}`;

    for (const requestState of [flipped, forged, payload, `${asked.requestState}.x`, ""])
      await refused(request(client, "forged", { ...yes, requestState }));
    await refused(request(client, "other arguments", yes));
    await refused(request(stranger, "forged", yes));
    expect(place.times("forged")).toBe(0);

    const both = await Promise.allSettled([request(client, "forged", yes), request(client, "forged", yes)]);
    await refused(request(client, "forged", yes));

    expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    expect([place.times("forged"), place.times("other arguments")]).toEqual([1, 0]);
  });

  test("refuses an answer to the question of a killed gateway, and asks again", async () => {
    const killed = await place.serve();
    const asked = await request(await place.modern(killed, () => says("approve")), "again");
    const { id } = await place.approval("again");
    await killed.end();
    const client = await place.modern(serving, () => says("approve"));

    await refused(request(client, "again", answering(asked, says("approve"))));
    expect(place.times("again")).toBe(0);
    expect(await add(client, "again")).toMatchObject({ structuredContent: { line: "again" } });

    expect(place.times("again")).toBe(1);
    expect(await place.approval("again", "done")).toMatchObject({ id, answer: { via: "elicitation" } });
  });

  test("refuses a late answer, and leaves the request pending", async () => {
    const folder = await mkdtemp(join(tmpdir(), "qm-late-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const notes = join(folder, "notes");
    // The time limit of a question cannot be configured, so this gateway runs in the test process.
    const gate = await openGate({ limits: { questionMs: 50 } });
    gate.qm.register({
      name: "note",
      description: "Notes it.",
      inputSchema: { type: "object" },
      scope: "generalist",
      effect: "write",
      requiresApproval: true,
      handler: ({ line }) => appendFileSync(notes, String(line)),
    });
    const client = await gate.client("modern", "t", { capabilities: { elicitation: { form: {} } } });
    const asked = await request(client, "x", {}, "tool__note");
    const [, , expires] = JSON.parse(Buffer.from(asked.requestState.split(".")[0] ?? "", "base64url").toString());
    await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(expires));

    await refused(request(client, "x", answering(asked, says("approve")), "tool__note"));
    expect(existsSync(notes)).toBe(false);

    const { approvals } = gate.qm;
    const [open = { id: "none" }] = await approvals.list({ state: "pending" });
    await approvals.answer(open.id, { decision: "approved" }, { id: "ann", roles: ["approver"], via: "test" });
    expect(await approvals.outcome(open.id, { timeoutMs: 20_000 })).toMatchObject({ status: "done" });
    expect(readFileSync(notes, "utf8")).toBe("x");
  });

  test("runs a call that another approver approves, and returns its outcome for the client's answer", async () => {
    const client = await place.modern(serving, () => says("approve"));
    const asked = await request(client, "elsewhere");
    const { id } = await place.approval("elsewhere");

    expect(await approve(id)).toMatchObject({ code: 0 });
    const result = await request(client, "elsewhere", answering(asked, says("deny")));

    expect(result).toMatchObject({ structuredContent: { line: "elsewhere" } });
    expect(place.times("elsewhere")).toBe(1);
    expect(await place.approval("elsewhere", "done")).toMatchObject({ answer: { by: "ann", via: "cli" } });
  });
});

describe.each(transports)("approvals in the legacy era over %s", (transport) => {
  test("runs the approved call and refuses the denied one", async () => {
    const path = `legacy-${transport}`;
    const client = await place.legacy(gates[transport](), (message) =>
      message.includes("bad") ? says("deny", "not this one") : says("approve"),
    );

    const [good, bad] = await Promise.all([add(client, path), add(client, `bad-${path}`)]);
    await invoke(client, "file__write", { path, content: "hello" });

    expect(good).toMatchObject({ structuredContent: { line: path } });
    expect(bad).toMatchObject({ isError: true, structuredContent: { code: "tool_denied" } });
    expect(bad.content[0]?.text).toContain("not this one");
    expect([place.times(path), place.times(`bad-${path}`), place.written(path)]).toEqual([1, 0, "hello"]);
  });

  test("continues when another approver answers, and refuses the client's late answer", async () => {
    const line = `silent-${transport}`;
    let answerAtLast = (_: Elicited) => {};
    const client = await place.legacy(gates[transport](), () => new Promise((resolve) => (answerAtLast = resolve)));
    const calling = add(client, line);
    const { id } = await place.approval(line);

    expect(await approve(id, "--reason", "go on")).toMatchObject({ code: 0, err: "" });
    expect(await calling).toMatchObject({ structuredContent: { line } });
    answerAtLast(says("deny"));

    const [late] = await place.events("approval.refused", id, 1);
    expect(late?.data).toMatchObject({ via: "elicitation", reason: expect.stringContaining("by ann via cli") });
    expect(await place.approval(line, "done")).toMatchObject({ id, answer: { decision: "approved", by: "ann" } });
    expect(place.times(line)).toBe(1);
  });

  test("refuses an approval after the client has cancelled the call", async () => {
    const line = `cancelled-${transport}`;
    const client = await place.legacy(gates[transport](), () => new Promise(() => {}));
    const cancelling = new AbortController();
    const params = { name: "invoke_action", arguments: { action_name: ADD, args: { line } } };
    const calling = client.callTool(params, undefined, { signal: cancelling.signal });
    const { id } = await place.approval(line);

    cancelling.abort("changed my mind");
    await expect(calling).rejects.toThrow("changed my mind");
    await place.approval(line, "expired");

    expect((await approve(id)).err).toContain("the caller cancelled the call");
    expect(place.times(line)).toBe(0);
  });
});

describe("a client that cannot be asked", () => {
  test.each([
    ["modern", "stdio"],
    ["legacy", "http"],
  ] as const)("waits for an approval from another process (%s, %s)", async (era, transport) => {
    const client = await place[era](gates[transport]());
    const line = `waits-${era}`;
    const id = waitingId(await add(client, line));
    const none = await invoke(client, "approval__await", { approval_id: id, wait_ms: 1 });
    expect(none.structuredContent).toMatchObject({ status: "waiting", approval_id: id });

    const [outcome, approved] = await Promise.all([awaited(client, id), approve(id)]);

    expect(outcome).toMatchObject({ status: "done", result: { line } });
    expect(approved).toMatchObject({ code: 0, err: "" });
    expect(place.times(line)).toBe(1);
    // The outcome was delivered, so the same call is a new request.
    expect(waitingId(await add(client, line))).not.toBe(id);
  });

  test("gets the outcome once by repeating the call", async () => {
    const client = await place.modern(serving);
    const id = waitingId(await add(client, "repeated"));
    expect(waitingId(await add(client, "repeated"))).toBe(id);
    await approve(id);

    const [again, anew] = [await add(client, "repeated"), await add(client, "repeated")];

    expect(again).toMatchObject({ structuredContent: { line: "repeated" } });
    expect(waitingId(anew)).not.toBe(id);
    expect(place.times("repeated")).toBe(1);
  });
});

describe.each(["modern", "legacy"] as const)("a %s client over stdio that restarts before the approval", (era) => {
  test.each([
    ["the call itself", (line: string) => [ADD, { line }]],
    ["the call that made it", (line: string) => ["infospace__apply", { action: ADD, args: { line } }]],
  ] as const)("gets the outcome once by repeating %s", async (what, toCall) => {
    const line = `restarted-${era}, ${what}`;
    const [action, args] = toCall(line) as [string, object];
    const before = await place[era](gates.stdio());
    const id = waitingId(await invoke(before, action, args));
    await before.close();
    expect(await approve(id)).toMatchObject({ code: 0 });
    const stranger = await place[era === "modern" ? "legacy" : "modern"](gates.stdio());
    const after = await place[era](gates.stdio());

    const other = waitingId(await invoke(stranger, action, args));
    const repeated = await invoke(after, action, args);
    const anew = waitingId(await invoke(after, action, args));

    expect(repeated.content[0]?.text).toContain(line);
    expect(repeated.structuredContent).not.toMatchObject({ status: "waiting" });
    expect(new Set([id, other, anew]).size).toBe(3);
    expect(place.times(line)).toBe(1);
  });
});

describe("approvers away from the client", () => {
  const post = async (id: string, decision: string, token: string) => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const where = new URL(`/v1/approvals/${id}`, serving.url);
    const response = await fetch(where, { method: "POST", headers, body: JSON.stringify({ decision }) });
    return { status: response.status, said: await response.text() };
  };

  test("approve over HTTP", async () => {
    const client = await place.modern(serving);
    const id = waitingId(await add(client, "posted"));

    expect((await post(id, "approve", serving.token)).status).toBe(401);
    expect((await post(id, "approve", tokens.ANN)).status).toBe(200);

    expect(await awaited(client, id)).toMatchObject({ status: "done" });
    expect(place.times("posted")).toBe(1);
  });

  test.each([
    ["approve", "done", 1],
    ["deny", "refused", 0],
  ] as const)("%s by a signed link, whose second use names the first answer", async (decision, status, times) => {
    const client = await place.modern(serving);
    const line = `link-${decision}`;
    const id = waitingId(await add(client, line));
    const made = await place.qmAs(tokens.ANN, "approvals", "link", id, "--for", "bea", "--json");
    const link = new URL(JSON.parse(made.out).url);
    // A reverse proxy would forward the public address to the gateway.
    const page = new URL(link.pathname + link.search, serving.url);
    const answer = (choice: string, t = link.searchParams.get("t") ?? "") =>
      fetch(new URL(link.pathname, page), { method: "POST", body: new URLSearchParams({ t, decision: choice }) });

    expect(link.origin).toBe(config.approvals.public_url);
    expect(await (await fetch(page)).text()).toContain(line);
    expect((await answer("approve", "forged.link")).status).toBe(403);
    expect(await place.approval(line)).toMatchObject({ id });
    expect((await answer(decision)).status).toBe(200);
    const second = await answer("approve");

    expect([second.status, await second.text()]).toEqual([409, expect.stringContaining("bea was first")]);
    expect(await awaited(client, id)).toMatchObject({ status });
    expect(place.times(line)).toBe(times);
  });

  test("answer at the same time: one answer counts, and the other gets a conflict that names the winner", async () => {
    const client = await place.modern(serving);
    const id = waitingId(await add(client, "raced"));
    const denying = place.qm("approvals", "deny", id, "--yes", "--as", "ann");

    // The command prints the call before it answers.
    await denying.said;
    const [cli, http] = await Promise.all([denying, post(id, "approve", tokens.BEA)]);

    const [told, winner, status, times] =
      cli.code === 0 ? [http.said, "ann", "refused", 0] : [cli.err, "bea", "done", 1];
    expect([cli.code === 0, http.status === 200].filter(Boolean)).toHaveLength(1);
    expect(told).toContain("answered already");
    expect(told).toContain(`by ${winner}`);
    expect(await awaited(client, id)).toMatchObject({ status });
    expect(place.times("raced")).toBe(times);
  });
});

describe("a passed-through server", () => {
  const image = { type: "image", data: "AAAA", mimeType: "image/png" };
  const own = (line: string) => ({
    content: [{ type: "text", text: `added ${line}` }, image],
    structuredContent: { line },
    _meta: { "example.com/pages": 1 },
  });
  const passed = { stdio: () => ({ profile: "passed" }), http: () => ({ ...serving, token: tokens.PASSED }) };
  const read = "read count://lines";

  test.each([
    ["modern", "http"],
    ["modern", "stdio"],
    ["legacy", "http"],
    ["legacy", "stdio"],
  ] as const)("needs approval, and its result is passed on unchanged (%s, %s)", async (era, transport) => {
    let answer = says("approve");
    const client = await place[era](passed[transport](), () => answer);
    const call = { name: "add", arguments: { line: `passed-${era}-${transport}` } };
    const before = place.times(read);

    expect(await client.callTool(call)).toMatchObject(own(call.arguments.line));
    const resource = await client.readResource({ uri: "count://lines" });
    answer = says("deny");
    const denied = await client.callTool(call);
    const unread = await client.readResource({ uri: "count://lines" }).catch((thrown: unknown) => thrown);

    expect(resource).toMatchObject({ contents: [{ uri: "count://lines", text: "all of them" }] });
    expect(denied).toMatchObject({ isError: true, structuredContent: { code: "tool_denied" } });
    expect(unread).toMatchObject({ data: { code: "tool_denied" } });
    expect([place.times(call.arguments.line), place.times(read) - before]).toEqual([1, 1]);
  });

  test("returns its own result to a client that cannot be asked, once the call is approved", async () => {
    const client = await place.modern(passed.http());
    const call = async () => (await client.callTool({ name: "add", arguments: { line: "held" } })) as Result;

    const waiting = await call();
    const unread = await client.readResource({ uri: "count://lines" }).catch((thrown: unknown) => thrown);
    const { id } = await place.approval("held");
    await approve(id);

    expect([waiting.isError, waiting.content[0]?.text]).toEqual([true, expect.stringContaining(id)]);
    expect(unread).toMatchObject({ data: { status: "waiting", approval_id: expect.any(String) } });
    expect(await call()).toMatchObject(own("held"));
    expect(place.times("held")).toBe(1);
  });
});

test.each(["modern", "legacy"] as const)("does not ask a %s client for an administrator's approval", async (era) => {
  const person = vi.fn(() => says("approve"));
  const client = await place[era](serving, person);
  const path = `keys-${era}`;
  await invoke(client, "file__write", { path, content: "k" });
  person.mockClear();

  const id = waitingId(await invoke(client, "file__delete", { path }));
  expect((await approve(id)).err).toContain("ann has none of the roles");
  expect([person.mock.calls.length, place.written(path)]).toEqual([0, "k"]);
  expect(await approveAs(tokens.BEA, id)).toMatchObject({ code: 0 });

  expect(await awaited(client, id)).toMatchObject({ status: "done" });
  expect(place.written(path)).toBeUndefined();
});

test("keeps waiting calls across killed gateways when clients are not asked", async () => {
  const other = await openWorkplace(
    command.bin,
    { ...config, approvals: { ...config.approvals, ask_client: false } },
    tokens,
  );
  onTestFinished(other.close);
  const person = vi.fn(() => says("approve"));
  const first = await other.serve();
  const [modern, legacy] = await Promise.all([other.modern(first, person), other.legacy(first, person)]);
  const one = waitingId(await add(legacy, "one"));
  const two = waitingId(await add(modern, "two"));
  expect(person).not.toHaveBeenCalled();
  await first.end();
  expect(await other.qmAs(tokens.ANN, "approvals", "approve", one, "--yes", "--no-run")).toMatchObject({ code: 0 });
  expect(other.times("one")).toBe(0);

  // The next gateway runs a call that was approved while no gateway was running.
  const second = await other.serve();
  await other.approval("one", "done");
  expect(waitingId(await add(await other.modern(second), "two"))).toBe(two);
  await second.end();
  expect(await other.qmAs(tokens.ANN, "approvals", "approve", two, "--yes")).toMatchObject({ code: 0 });

  const third = await other.serve();
  const last = await other.modern(third);
  expect(await awaited(last, one)).toMatchObject({ code: "not_found" });
  expect(await awaited(await other.legacy(third), one)).toMatchObject({ status: "done", result: { line: "one" } });
  expect(await add(last, "two")).toMatchObject({ structuredContent: { line: "two" } });
  expect([other.times("one"), other.times("two")]).toEqual([1, 1]);
});

test("a gateway exits on SIGTERM while it asks a person, and the request stays pending", async () => {
  const ending = await place.serve();
  const [modern, legacy] = await Promise.all([
    place.modern(ending, () => says("approve")),
    place.legacy(ending, () => new Promise(() => {})),
  ]);
  await request(modern, "ends-modern");
  add(legacy, "ends-legacy").catch(() => {});
  await place.approval("ends-legacy");

  expect(await ending.end("SIGTERM")).toBe(0);

  const { id } = await place.approval("ends-legacy");
  await place.approval("ends-modern");
  expect(await approve(id)).toMatchObject({ code: 0 });
  expect([place.times("ends-legacy"), place.times("ends-modern")]).toEqual([1, 0]);
});
