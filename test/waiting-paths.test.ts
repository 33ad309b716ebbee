import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { atTerminal, cleanUp, qm as runCli } from "../src/cli/testing.ts";
import { isRecord, type JsonObject } from "../src/core/json.ts";
import type { WaitingOutcome } from "../src/core/outcome.ts";
import type { Outcome } from "../src/index.ts";
import { openGateway } from "../src/mcp/gateway/create-gateway.ts";
import type { GatewayEra } from "../src/mcp/gateway/gateway.ts";
import { clientOf } from "../src/mcp/gateway/testing.ts";
import type { Surface } from "../src/surface/surface.ts";
import { openWorkspace, type Workspace } from "../src/workspace/workspace.ts";
import { converseByGenerateText } from "./fixtures/scripted-ai-sdk.ts";
import { converseByMessages } from "./fixtures/scripted-anthropic.ts";
import { converseByAgent } from "./fixtures/scripted-langchain.ts";
import type { Converse } from "./fixtures/scripted-model.ts";
import { converseByChat, converseByResponses } from "./fixtures/scripted-openai.ts";

/** The answer to a call, as the caller on a path gets it. */
type Answer = {
  readonly status: string;
  readonly approvalId?: unknown;
  readonly text: string;
  readonly exitCode?: number;
};
type Call = (action: string, args: JsonObject) => Promise<Answer>;

const SERVER = join(import.meta.dirname, "fixtures/counting-server.mjs");
const TOKENS = { universal: "u".repeat(32), through: "t".repeat(32) };
const ENV = { PATH: process.env.PATH, UNIVERSAL: TOKENS.universal, THROUGH: TOKENS.through };
const INNER = "mcp__counting__add";
const anyone = { type: "object", properties: { line: { type: "string" } }, required: ["line"] } as const;

let folder: string;
let workspace: Workspace;
let url: string;
let closeGateway: () => Promise<void>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "qm-waiting-"));
  const profiles = {
    universal: { token: `\${env:UNIVERSAL}`, surface: "universal" },
    through: { token: `\${env:THROUGH}`, pass_through: ["counting"] },
  };
  const config = {
    servers: { counting: { command: process.execPath, args: [SERVER, journalPath()] } },
    policy: { rules: [{ name: "ask", rule: `tool.name == '${INNER}'`, effect: "ask" }] },
    gateway: { profiles },
  };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify(config));
  workspace = await openWorkspace({ cwd: folder, env: ENV });
  await workspace.servers.hub.connect("counting");
  await workspace.quartermaster.catalog.settled();
  const common = { description: "Adds a line.", inputSchema: anyone, scope: "generalist", effect: "write" } as const;
  const { register } = workspace.quartermaster;
  register({
    ...common,
    name: "returns_data",
    // A result without the line would not fit.
    outputSchema: { type: "object", properties: { line: { type: "string" } }, required: ["line"] },
    async handler(args, { invoke }) {
      const outcome = await invoke(INNER, args);
      return outcome.status === "done" ? outcome.data : undefined;
    },
  });
  register({ ...common, name: "returns_outcome", handler: (args, { invoke }) => invoke(INNER, args) });
  register({
    ...common,
    name: "throws",
    async handler(args, { invoke }) {
      const outcome = await invoke(INNER, args);
      if (outcome.status !== "done") throw new Error("the line was not added");
      return outcome.data;
    },
  });
  register({
    ...common,
    name: "calls_a_caller",
    async handler(args, { invoke }) {
      const outcome = await invoke("tool__throws", args);
      return outcome.status === "done" ? outcome.data : null;
    },
  });
  const answers: Readonly<Record<string, (waiting: WaitingOutcome) => unknown>> = {
    has_paid: () => ({ paid: true }),
    returns_value: ({ value }) => value,
    returns_facts: ({ value }) => JSON.parse(value),
    returns_copy: (waiting) => ({ ...waiting }),
    continues: () => ({ seen: 1, continue_with: { after: 1 } }),
    tells_of_it: ({ approval }) => ({ paid: true, approval_id: approval.id }),
  };
  for (const [name, answer] of Object.entries(answers)) {
    register({
      ...common,
      name,
      async handler(args, { invoke }) {
        const outcome = await invoke(INNER, args);
        return outcome.status === "waiting" ? answer(outcome) : { after: outcome.status };
      },
    });
  }
  const gateway = openGateway(workspace, (problem) => expect.fail(problem));
  url = (await gateway.listen({ port: 0 })).url;
  closeGateway = gateway.close;
});

afterAll(async () => {
  await closeGateway?.();
  await workspace?.close();
  await cleanUp();
  await rm(folder, { recursive: true, force: true });
});

const journalPath = () => join(folder, "journal.txt");

async function countLines(line: string): Promise<number> {
  const text = await readFile(journalPath(), "utf8").catch(() => "");
  return text.split("\n").filter((each) => each === line).length;
}

function toAnswer(outcome: Outcome): Answer {
  const { status, value: text } = outcome;
  return { status, text, ...(outcome.status === "waiting" ? { approvalId: outcome.approval.id } : {}) };
}

/** What a model reads. Text that is not an answer of ours is the result of the action. */
function readText(text: string): Answer {
  const json = text.slice(text.indexOf("{"));
  try {
    const data = JSON.parse(json);
    if (isRecord(data) && typeof data.status === "string")
      return { status: data.status, approvalId: data.approval_id, text };
  } catch {
    // Plain text.
  }
  return { status: "done", text };
}

async function overGateway(era: GatewayEra, token: string, toRequest: (action: string, args: JsonObject) => object) {
  const client = clientOf(era);
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${token}` } } }),
  );
  return async (action: string, args: JsonObject) => {
    const { content } = await client.callTool(toRequest(action, args) as never);
    const [first] = content as { text: string }[];
    return readText(first?.text ?? "");
  };
}

const openSurface = (session: string, kind: Surface["kind"]) => workspace.quartermaster.surface({ session }, kind);

const native = (kind: Surface["kind"]) => async (): Promise<Call> => {
  const surface = await openSurface(kind, kind);
  return async (action, args) => readText((await surface.call(action, args)).text);
};

const converse = (talk: Converse) => async (): Promise<Call> => {
  const surface = await openSurface("model", "universal");
  return async (action_name, args) => {
    const { answers } = await talk(surface, [[{ name: "invoke_action", args: { action_name, args } }]]);
    return readText(String(answers[0]?.[0]?.text));
  };
};

const byInvokeAction = (action_name: string, args: JsonObject) => ({
  name: "invoke_action",
  arguments: { action_name, args },
});

const channels: Readonly<Record<string, () => Promise<Call>>> = {
  library: async () => async (action, args) => toAnswer(await workspace.quartermaster.invoke(action, args)),
  "command line": async () => async (action, args) => {
    const { code, out } = await runCli(folder, ["invoke", action, JSON.stringify(args), "--json"], { env: ENV });
    const { status, approval } = JSON.parse(out);
    return { status, approvalId: approval?.id, text: out, exitCode: code };
  },
  universal: async () => {
    const surface = await openSurface("universal", "universal");
    return async (action_name, args) => readText((await surface.call("invoke_action", { action_name, args })).text);
  },
  flat: native("flat"),
  deferred: native("deferred"),
  "MCP gateway, legacy": () => overGateway("legacy", TOKENS.universal, byInvokeAction),
  "MCP gateway, modern": () => overGateway("modern", TOKENS.universal, byInvokeAction),
  "AI SDK": converse(converseByGenerateText),
  "OpenAI chat": converse(converseByChat),
  "OpenAI responses": converse(converseByResponses),
  Anthropic: converse(converseByMessages),
  LangChain: converse(converseByAgent),
};

const outers: Readonly<Record<string, (line: string) => readonly [action: string, args: JsonObject]>> = {
  "the action itself": (line) => [INNER, { line }],
  mcp__call_tool: (line) => ["mcp__call_tool", { tool: "counting__add", tool_args: { line } }],
  infospace__apply: (line) => ["infospace__apply", { action: INNER, args: { line } }],
  "a handler that returns data": (line) => ["tool__returns_data", { line }],
  "a handler that returns the outcome": (line) => ["tool__returns_outcome", { line }],
  "a handler that throws": (line) => ["tool__throws", { line }],
  "a handler inside a handler": (line) => ["tool__calls_a_caller", { line }],
};

/** The handlers are registered in this process, where `qm` does not see them. */
const isPossible = (channel: string, outer: string) => channel !== "command line" || !outer.startsWith("a handler");
const cases = Object.keys(channels).flatMap((channel) =>
  Object.keys(outers)
    .filter((outer) => isPossible(channel, outer))
    .map((outer) => [channel, outer] as const),
);

async function approve(id: unknown): Promise<void> {
  const { approvals } = workspace.quartermaster;
  await approvals.answer(String(id), { decision: "approved" }, { id: "ann", roles: ["approver"], via: "test" });
  await approvals.run(String(id));
}

async function findPending(line: string): Promise<readonly string[]> {
  const pending = await workspace.quartermaster.approvals.list({ state: "pending" });
  return pending.filter(({ args }) => isRecord(args) && args.line === line).map(({ id }) => id);
}

test.each(cases)(
  "%s: a call of %s waits with the approval's id, runs once and then gives the result",
  async (channel, outer) => {
    const line = `${channel}, ${outer}`;
    const call = await channels[channel]?.();
    const [action, args] = outers[outer]?.(line) ?? [];
    if (call === undefined || action === undefined || args === undefined) expect.fail("unknown path");

    const first = await call(action, args);
    expect(first).toMatchObject({ status: "waiting" });
    expect(await findPending(line)).toEqual([first.approvalId]);
    if (channel === "command line") expect(first.exitCode).toBe(3);
    expect(await call(action, args)).toMatchObject({ status: "waiting", approvalId: first.approvalId });
    await approve(first.approvalId);
    const repeated = await call(action, args);

    expect(repeated.status).toBe("done");
    expect(repeated.text).toContain(line);
    if (channel === "command line") expect(repeated.exitCode).toBe(0);
    expect(await countLines(line)).toBe(1);
  },
);

test.each(["legacy", "modern"] as const)(
  "a tool that is passed through to a %s client waits with the approval's id",
  async (era) => {
    const line = `through, ${era}`;
    const call = await overGateway(era, TOKENS.through, (name, args) => ({ name, arguments: args }));

    const first = await call("add", { line });
    expect(first).toMatchObject({ status: "waiting" });
    expect(await findPending(line)).toEqual([first.approvalId]);
    await approve(first.approvalId);

    expect(await call("add", { line })).toMatchObject({ text: `added ${line}` });
    expect(await countLines(line)).toBe(1);
  },
);

test("approval__await gives the result of the inner call", async () => {
  const { quartermaster } = workspace;
  const waiting = toAnswer(await quartermaster.invoke("tool__returns_data", { line: "awaited" }));
  await approve(waiting.approvalId);

  expect(await quartermaster.invoke("approval__await", { approval_id: waiting.approvalId as string })).toMatchObject({
    status: "done",
    data: { status: "done", action: INNER, result: { line: "awaited" } },
  });
});

/** As a person at a terminal, who says yes when asked. */
const approveAtTerminal = (id: unknown) =>
  runCli(folder, ["approvals", "approve", String(id)], { ...atTerminal("y\n"), env: { ...ENV, NO_COLOR: "1" } });

describe("at the command line", () => {
  test.each(["mcp__call_tool", "infospace__apply"])(
    "%s gets the result of an inner call that was approved there, once",
    async (outer) => {
      const line = `terminal, ${outer}`;
      const call = await channels["command line"]?.();
      const [action, args] = outers[outer]?.(line) ?? expect.fail("unknown path");
      const first = await call?.(action, args);

      const approved = await approveAtTerminal(first?.approvalId);
      const repeated = await call?.(action, args);
      const again = await call?.(action, args);

      expect(approved.code).toBe(0);
      expect(approved.out).toContain("Another call made it.");
      expect(repeated).toMatchObject({ status: "done", exitCode: 0, text: expect.stringContaining(line) });
      expect(again?.status).toBe("waiting");
      expect(again?.approvalId).not.toBe(first?.approvalId);
      expect(await countLines(line)).toBe(1);
    },
  );

  test("an outer call gets the result of a call that was asked for directly before", async () => {
    const line = "terminal, asked directly";
    const call = await channels["command line"]?.();
    const direct = await call?.(INNER, { line });
    const [action, args] = outers.infospace__apply?.(line) ?? expect.fail("unknown path");
    expect(await call?.(action, args)).toMatchObject({ approvalId: direct?.approvalId });

    await approveAtTerminal(direct?.approvalId);

    expect(await call?.(action, args)).toMatchObject({ status: "done" });
    expect(await countLines(line)).toBe(1);
  });

  test.each([true, false])(
    "infospace__map prints all that waits and goes on, continue_with: %s",
    async (isContinued) => {
      const target = ["a", "b"].map((each) => ({ line: `terminal, map ${isContinued} ${each}` }));
      const args = { target, action: INNER, concurrency: 1 };
      const invoke = (all: JsonObject) =>
        runCli(folder, ["invoke", "infospace__map", JSON.stringify(all)], { env: ENV });

      const { code, err } = await invoke(args);
      const ids = (await Promise.all(target.map(({ line }) => findPending(line)))).flat();
      expect(code).toBe(3);
      expect(ids).toHaveLength(2);
      for (const id of ids) expect(err).toContain(id);
      const [, added = "{}"] = /repeat this call with these arguments added: (.*)/.exec(err) ?? [];
      expect(JSON.parse(added)).toMatchObject({ positions: [0, 1], into: expect.stringContaining("collection__") });
      for (const id of ids) expect(await approveAtTerminal(id)).toMatchObject({ code: 0 });

      const repeated = await invoke(isContinued ? { ...args, ...JSON.parse(added) } : args);
      expect(repeated.code).toBe(0);
      expect(JSON.parse(repeated.out)).toMatchObject({ done: 2 });
      for (const { line } of target) expect(await countLines(line)).toBe(1);
    },
  );

  test.each(["the action itself", "infospace__apply"])("the hint of %s names commands only", async (outer) => {
    const [action, args] = outers[outer]?.(`hinted, ${outer}`) ?? expect.fail("unknown path");
    const { out } = await runCli(folder, ["invoke", action, JSON.stringify(args), "--json"], { env: ENV });

    const { hint, approval } = JSON.parse(out);
    expect(hint).toContain(`\`qm approvals approve ${approval.id}\``);
    expect(hint).not.toContain("approval__await");
    expect(hint).not.toContain("Repeat the same call later");
  });
});

describe("a handler whose call waits", () => {
  test.each(["has_paid", "tells_of_it"])("is done with an answer of its own: %s", async (name) => {
    const outcome = await workspace.quartermaster.invoke(`tool__${name}`, { line: `handled, ${name}` });
    expect(outcome).toMatchObject({ status: "done", data: { paid: true } });
  });

  test.each(["returns_value", "returns_facts", "returns_copy", "continues"])(
    "waits if it passes the outcome on or continues later: %s",
    async (name) => {
      const { quartermaster } = workspace;
      const line = `passed on, ${name}`;
      const first = await quartermaster.invoke(`tool__${name}`, { line });
      expect(first).toMatchObject({ status: "waiting", approval: { inner: INNER } });
      await approve(toAnswer(first).approvalId);

      expect(await quartermaster.invoke(`tool__${name}`, { line })).toMatchObject({ data: { after: "done" } });
      expect(await countLines(line)).toBe(1);
    },
  );

  test("is told how to get the result of the inner call alone", async () => {
    const surface = await openSurface("flat", "flat");
    const { text } = await surface.call("infospace__apply", { action: INNER, args: { line: "alone" } });
    const { hint, approval_id } = JSON.parse(text);
    expect(hint).toContain("Then repeat this call.");
    expect(hint).toContain(`call approval__await with {"approval_id":"${approval_id}"}`);
  });
});

test("a denied inner call refuses the repeated outer call", async () => {
  const { quartermaster } = workspace;
  const waiting = toAnswer(await quartermaster.invoke("infospace__apply", { action: INNER, args: { line: "denied" } }));
  const ann = { id: "ann", roles: ["approver"], via: "test" };
  await quartermaster.approvals.answer(String(waiting.approvalId), { decision: "denied" }, ann);

  const repeated = await quartermaster.invoke("infospace__apply", { action: INNER, args: { line: "denied" } });
  expect(repeated).toMatchObject({ status: "refused", error: { code: "tool_denied" } });
  expect(await countLines("denied")).toBe(0);
});

test("a replay answers waiting, too, and differs in nothing", async () => {
  const { quartermaster } = workspace;
  const caller = { session: "replayed" };
  await quartermaster.invoke("tool__calls_a_caller", { line: "replayed" }, { caller });

  const { calls } = await quartermaster.replay({ session: "replayed" });

  expect(
    calls.map(({ asked, recorded, replayed, differs }) => [asked, recorded.status, replayed.status, differs]),
  ).toEqual([
    ["tool__calls_a_caller", "waiting", "waiting", []],
    ["tool__throws", "waiting", "waiting", []],
    [INNER, "waiting", "waiting", []],
  ]);
});

describe("infospace__map", () => {
  const items = (name: string) => ["a", "b", "c"].map((each) => ({ line: `${name} ${each}` }));

  test.each(["library", "command line", "flat"])(
    "%s: tells which items wait, and goes on with these alone",
    async (channel) => {
      const target = items(`map, ${channel}`);
      const call = await channels[channel]?.();
      const args = { target, action: INNER, concurrency: 1 };

      const first = await call?.("infospace__map", args);
      const pending = (await Promise.all(target.map(({ line }) => findPending(line)))).flat();
      expect(first).toMatchObject({ status: "waiting", approvalId: pending[0] });
      if (channel === "command line") expect(first?.exitCode).toBe(3);
      const { progress } = JSON.parse(first?.text ?? "");
      expect(progress).toMatchObject({ waiting: 3, waiting_items: { 0: pending[0], 1: pending[1], 2: pending[2] } });
      await approve(pending[0]);
      await approve(pending[2]);

      const second = await call?.("infospace__map", { ...args, ...progress.continue_with });
      const { progress: left } = JSON.parse(second?.text ?? "");
      expect(second).toMatchObject({ status: "waiting", approvalId: pending[1] });
      expect(left).toMatchObject({ done: 2, waiting_items: { 1: pending[1] }, continue_with: { positions: [1] } });
      await approve(pending[1]);

      const third = await call?.("infospace__map", { ...args, ...left.continue_with });
      expect(third?.status).toBe("done");
      const { handle } = progress;
      const loaded = await call?.("infospace__load", { target: handle });
      for (const { line } of target) {
        expect(loaded?.text).toContain(line);
        expect(await countLines(line)).toBe(1);
      }
    },
  );

  test("does not run items again that need no approval", async () => {
    const { quartermaster } = workspace;
    const ran: unknown[] = [];
    quartermaster.register({
      name: "pays",
      description: "Pays a sum.",
      inputSchema: { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] },
      scope: "generalist",
      effect: "external",
      requiresApproval: { autoApproveIf: "args.sum < 50.0" },
      handler({ sum }) {
        ran.push(sum);
        return sum === 7 ? null : { paid: sum };
      },
    });
    const args = { target: [{ sum: 1 }, { sum: 99 }, { sum: 7 }, { sum: 3 }], action: "tool__pays" };

    const first = await quartermaster.invoke("infospace__map", args);
    const waiting = toAnswer(first);
    const progress = first.status === "waiting" ? (first.progress as JsonObject) : expect.fail(first.value);
    await approve(waiting.approvalId);
    const second = await quartermaster.invoke("infospace__map", { ...args, ...(progress.continue_with as JsonObject) });

    expect(progress).toMatchObject({ done: 2, empty: 1, waiting: 1, waiting_items: { 1: waiting.approvalId } });
    expect(second).toMatchObject({ status: "done", data: { done: 1, handle: progress.handle, count: 3 } });
    expect(ran.toSorted()).toEqual([1, 3, 7, 99]);
  });

  test("starts no more items while many wait", async () => {
    const { quartermaster } = workspace;
    const target = Array.from({ length: 60 }, (_, at) => ({ line: `many ${at}` }));

    const outcome = await quartermaster.invoke("infospace__map", { target, action: INNER, concurrency: 1 });

    expect(outcome).toMatchObject({ progress: { waiting: 16, stopped_by: "waiting", next: 16, not_run: 44 } });
  });
});
