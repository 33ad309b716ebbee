import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { systemRuntime } from "../src/app/system-runtime.ts";
import { atTerminal, cleanUp, createTestFolder, qm as program, start } from "../src/cli/testing.ts";
import {
  type Approver,
  type CallContext,
  createQuartermaster,
  type Outcome,
  type Quartermaster,
  type QuartermasterOptions,
  type ResumedTurn,
} from "../src/index.ts";
import type { Told } from "./fixtures/turn-process.ts";
import { findCompiled } from "./support/compiled.ts";

// A model loop is suspended while approvals are pending, and another process resumes it. The processes are real, and so
// are the AI SDK, the store, the CLI that people answer with, and the way processes end.

const SCRIPT = findCompiled(new URL("fixtures/turn-process.ts", import.meta.url));
const DAY_MS = 86_400_000;
const ann: Approver = { id: "ann", roles: ["approver"], via: "test" };
const approved = { decision: "approved" } as const;
const refused = { decision: "denied", reason: "not today" } as const;

afterEach(cleanUp);

interface Place {
  readonly cwd: string;
  readonly store: string;
  /** Reads and answers approvals, and runs no calls. */
  readonly approvalService: Quartermaster["approvals"];
  /** One line for each effect of a call. */
  effects(): readonly string[];
  process(): Promise<Host>;
}

/** A process that runs a model loop. */
interface Host {
  begin(to: string): Promise<Suspended>;
  /** Resumes several turns at once. */
  resumeAll(tokens: readonly string[]): Promise<readonly Told[]>;
  resume(token: string): Promise<Told | undefined>;
  save(token: string): Promise<Told>;
  finish(token: string): Promise<Complete>;
  /** Kills the process with SIGKILL. */
  kill(): Promise<void>;
}

type Suspended = Extract<Told, { token: string }>;
type Complete = Extract<Told, { words: string }>;

async function openPlace(): Promise<Place> {
  const cwd = await createTestFolder({ "quartermaster.yaml": SHELL_CONFIG });
  const [store, effects] = [join(cwd, "store.db"), join(cwd, "effects")];
  const looking = await createQuartermaster({ store, approvals: { worker: false } });
  onTestFinished(() => looking.close());
  return {
    cwd,
    store,
    approvalService: looking.approvals,
    effects: () => (existsSync(effects) ? readFileSync(effects, "utf8").trim().split("\n") : []),
    process: () => startHost(store, effects),
  };
}

async function startHost(store: string, effects: string): Promise<Host> {
  const child = spawn(process.execPath, [SCRIPT, store, effects], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => String((await lines.next()).value);
  expect(await next()).toBe("ready");
  async function say<Answer = Told>(line: string): Promise<Answer> {
    child.stdin.write(`${line}\n`);
    return JSON.parse(await next());
  }
  return {
    begin: (to) => say(`begin ${to}`),
    resumeAll: (tokens) => say(`resume ${tokens.join(",")}`),
    resume: async (token) => (await say<readonly Told[]>(`resume ${token}`))[0],
    save: (token) => say(`save ${token}`),
    finish: (token) => say(`finish ${token}`),
    async kill() {
      const closed = once(child, "close");
      child.kill("SIGKILL");
      expect(await closed).toEqual([null, "SIGKILL"]);
    },
  };
}

/** Suspends turns that each wait for two approvals, and kills their process. */
async function suspendTurns<To extends readonly string[]>(at: Place, ...to: To) {
  const first = await at.process();
  const turns: Suspended[] = [];
  for (const whom of to) turns.push(await first.begin(whom));
  await first.kill();
  return turns as { readonly [Key in keyof To]: Suspended };
}

/** Answers both approvals of a turn and waits until both calls have ended. */
async function answerTurn({ approvalService }: Place, { approvals }: Suspended): Promise<void> {
  const { "call-pay": pay = "", "call-mail": mail = "" } = approvals;
  await Promise.all([approvalService.answer(pay, approved, ann), approvalService.answer(mail, refused, ann)]);
  await waitUntilEnded(approvalService, pay, mail);
}

/** Waits until the calls have ended, whichever process runs them. */
async function waitUntilEnded(approvalService: Quartermaster["approvals"], ...ids: readonly string[]): Promise<void> {
  const outcomes = await Promise.all(ids.map((id) => approvalService.outcome(id, { timeoutMs: 30_000 })));
  expect(outcomes.map(({ status }) => status)).not.toContain("waiting");
}

const RESULTS = [
  ["call-pay", "done"],
  ["call-mail", "tool_denied"],
];

/** The model must have received the result of each of its three calls once. */
function expectSeen({ words, seen }: Complete, to: string): void {
  expect(words).toBe("I have done what I could.");
  expect(seen).toEqual([
    { id: "call-look", text: `{"did":"look","to":"${to}"}`, failed: false },
    { id: "call-pay", text: `{"did":"pay","to":"${to}"}`, failed: false },
    { id: "call-mail", text: expect.stringContaining("not today"), failed: true },
  ]);
  expect(JSON.parse(seen[2]?.text ?? "")).toMatchObject({ code: "tool_denied" });
}

describe("a turn with three parallel calls, two of which wait", () => {
  test("survives its process, waits for both approvals and resumes in another process with their outcomes", async () => {
    const at = await openPlace();
    const [{ token, approvals }] = await suspendTurns(at, "Ann");
    const { "call-pay": pay = "", "call-mail": mail = "" } = approvals;
    expect(Object.keys(approvals)).toEqual(["call-pay", "call-mail"]);
    expect(at.effects()).toEqual(["look Ann"]);
    const second = await at.process();
    const both = { state: "suspended", waiting: ["call-pay", "call-mail"], results: [] };
    expect(await second.resume(token)).toEqual(both);

    await answerAtShell(at, "approve", pay, "--no-run");
    await waitUntilEnded(at.approvalService, pay);
    // Resuming too early consumes no results, however often it is repeated.
    for (let time = 0; time < 2; time++) {
      const one = { state: "suspended", waiting: ["call-mail"], results: ["call-pay"] };
      expect(await second.resume(token)).toEqual(one);
    }
    await answerAtShell(at, "deny", mail, "--reason", "not today");

    expect(await second.resume(token)).toEqual({ state: "running", results: RESULTS });
    expectSeen(await second.finish(token), "Ann");
    expect(at.effects()).toEqual(["look Ann", "pay Ann"]);
    expect(await second.resume(token)).toEqual({ code: "conflict" });
  });

  test("is resumed by only one of several competing processes", async () => {
    const at = await openPlace();
    const people = Array.from({ length: 20 }, (_, index) => `person-${index}`);
    const [turns, ...hosts] = await Promise.all([
      suspendTurns(at, ...people),
      at.process(),
      at.process(),
      at.process(),
    ]);
    for (const turn of turns) await answerTurn(at, turn);
    const tokens = turns.map(({ token }) => token);

    const replies = await Promise.all(hosts.map((host) => host.resumeAll(tokens)));

    for (const [index, token] of tokens.entries()) {
      const heard = replies.map((each) => each[index]);
      const winner = heard.findIndex((each) => each !== undefined && "state" in each);
      expect(heard[winner]).toEqual({ state: "running", results: RESULTS });
      expect(heard.toSpliced(winner, 1)).toEqual([{ code: "conflict" }, { code: "conflict" }]);
      expect(await hosts[(winner + 1) % 3]?.resume(token)).toEqual({ code: "conflict" });
      expectSeen((await hosts[winner]?.finish(token)) ?? expect.fail("nobody got it"), people[index] ?? "");
    }
    const wanted = people.flatMap((to) => [`look ${to}`, `pay ${to}`]);
    expect(at.effects().toSorted()).toEqual(wanted.toSorted());
  });

  test.each([
    ["before saving: every result is delivered again", false, RESULTS],
    ["after saving: no result is delivered again", true, []],
  ])("resumes elsewhere when the resuming process dies %s", async (_, saves, results) => {
    const at = await openPlace();
    const [second, third, [turn]] = await Promise.all([at.process(), at.process(), suspendTurns(at, "Ann")]);
    await answerTurn(at, turn);
    expect(await second.resume(turn.token)).toEqual({ state: "running", results: RESULTS });
    if (saves) expect(await second.save(turn.token)).toEqual({ state: "saved" });
    expect(await third.resume(turn.token)).toEqual({ code: "conflict" });

    await second.kill();

    expect(await third.resume(turn.token)).toEqual({ state: "running", results });
    expectSeen(await third.finish(turn.token), "Ann");
    expect(at.effects()).toEqual(["look Ann", "pay Ann"]);
  });
});

const SHELL_TOKEN = "the-token-of-somebody-at-a-shell";
const SHELL_CONFIG = JSON.stringify({
  store: { path: "store.db" },
  mcp: { install: false },
  approvals: { approvers: { shell: { roles: ["approver", "admin"], token: `\${secret:SHELL_TOKEN}` } } },
});

/** Answers an approval with the CLI in a separate process. */
async function answerAtShell({ cwd }: Place, verb: "approve" | "deny", id: string, ...more: readonly string[]) {
  await program(cwd, ["secrets", "set", "SHELL_TOKEN"], atTerminal(`${SHELL_TOKEN}\n`));
  const { code, err } = await start(cwd, ["approvals", verb, id, "--yes", ...more], {
    QM_APPROVER_TOKEN: SHELL_TOKEN,
  }).ended;
  expect(code, err).toBe(0);
}

interface World {
  readonly qm: Quartermaster;
  readonly paid: number[];
}

/** A quartermaster with `pay`, which requires approval, and `pays`, which runs the given handler. */
async function world(
  pays: (context: CallContext) => unknown = () => undefined,
  options: QuartermasterOptions = {},
): Promise<World> {
  const qm = await createQuartermaster(options);
  onTestFinished(() => qm.close());
  const paid: number[] = [];
  const common = { scope: "generalist", effect: "external" } as const;
  qm.register({
    ...common,
    name: "pay",
    description: "Pay a sum.",
    inputSchema: z.object({ sum: z.number() }),
    requiresApproval: true,
    handler: ({ sum }) => {
      paid.push(sum);
      return { paid: sum };
    },
  });
  qm.register({
    ...common,
    name: "pays",
    description: "Pay several sums.",
    inputSchema: z.object({}),
    handler: (_, context) => pays(context),
  });
  return { qm, paid };
}

const caller = { actor: "default", session: "chat" };
const getSum = ({ args }: { readonly args: unknown }) => (args as { readonly sum: number }).sum;

/** Denies the sum 2, approves every other one and waits until the calls have ended. */
async function answerAll({ approvals }: Quartermaster): Promise<void> {
  const waiting = await approvals.list({ state: "pending" });
  for (const each of waiting) await approvals.answer(each.id, getSum(each) === 2 ? refused : approved, ann);
  await waitUntilEnded(approvals, ...waiting.map(({ id }) => id));
}

function expectRunning(resumed: ResumedTurn): Extract<ResumedTurn, { state: "running" }> {
  return resumed.state === "running" ? resumed : expect.fail(`the turn is ${resumed.state}`);
}

const how = (outcome: Outcome) => ("error" in outcome ? outcome.error.code : outcome.status);
const endings = (resumed: ResumedTurn) => expectRunning(resumed).results.map(({ ref, outcome }) => [ref, how(outcome)]);

describe("nested calls that wait for approval", () => {
  test("suspend the turn with the outer call, which is repeated when the turn resumes", async () => {
    const { qm, paid } = await world(async ({ invoke }) => {
      const outcomes = await Promise.all([1, 2, 3].map((sum) => invoke("tool__pay", { sum })));
      return outcomes.some(({ status }) => status === "waiting") ? undefined : outcomes.map(how);
    });
    const turn = await qm.turns.begin(caller);
    turn.noted("pays", await qm.invoke("tool__pays", {}, { caller: turn.caller }));

    const { resumeToken, parts } = await turn.suspend(null);
    for (const each of await qm.approvals.list({ state: "pending" })) {
      await qm.approvals.answer(each.id, getSum(each) === 2 ? refused : approved, ann);
      await expect.poll(async () => (await qm.approvals.get(each.id)).state).toMatch(/done|denied/);
    }
    const resumed = expectRunning(await qm.turns.resume(resumeToken));
    const repeated = await qm.invoke("tool__pays", {}, { caller: resumed.turn.caller });

    expect(parts).toMatchObject([{ data: { action: "tool__pays", inner: "tool__pay", args: { sum: 1 } } }]);
    expect(resumed.results).toMatchObject([{ ref: "pays", repeat: true, outcome: { action: "tool__pay" } }]);
    expect(repeated).toMatchObject({ status: "done", data: ["done", "tool_denied", "done"] });
    expect(paid.toSorted()).toEqual([1, 3]);
  });

  test("suspend the turn under separate names when the outer call hands them on", async () => {
    // The same pattern as `map` over a collection.
    const sums = [1, 2, 3, 4];
    const { qm, paid } = await world(async ({ invoke }) => {
      const ids: string[] = [];
      let next = 0;
      const work = async () => {
        for (let at = next++; at < sums.length; at = next++) {
          const outcome = await invoke("tool__pay", { sum: sums[at] });
          ids[at] = outcome.status === "waiting" ? outcome.approval.id : "";
        }
      };
      await Promise.all([work(), work()]);
      return ids;
    });
    const turn = await qm.turns.begin(caller);
    const outcome = await qm.invoke("tool__pays", {}, { caller: turn.caller });
    const ids = outcome.status === "done" ? (outcome.data as readonly string[]) : expect.fail(outcome.value);
    for (const [at, id] of ids.entries()) {
      turn.noted(`pays ${at}`, await qm.approvals.outcome(id, { caller: turn.caller, timeoutMs: 0 }));
    }

    const { resumeToken, parts } = await turn.suspend({ messages: ["pay them all"] });
    await answerAll(qm);
    const resumed = await qm.turns.resume(resumeToken);

    expect(parts.map(({ data }) => data.approvalId)).toEqual(ids);
    expect(expectRunning(resumed).memo).toEqual({ messages: ["pay them all"] });
    expect(endings(resumed)).toEqual([
      ["pays 0", "done"],
      ["pays 1", "tool_denied"],
      ["pays 2", "done"],
      ["pays 3", "done"],
    ]);
    expect(paid.toSorted()).toEqual([1, 3, 4]);
  });
});

describe("a turn", () => {
  test("asks once for two identical parallel calls and receives both results", async () => {
    const { qm, paid } = await world();
    const turn = await qm.turns.begin(caller);
    const outcomes = await Promise.all([1, 1].map((sum) => qm.invoke("tool__pay", { sum }, { caller: turn.caller })));
    for (const [at, outcome] of outcomes.entries()) turn.noted(`call ${at}`, outcome);

    const { resumeToken } = await turn.suspend(null);
    expect(await qm.approvals.list()).toHaveLength(1);
    await answerAll(qm);

    expect(endings(await qm.turns.resume(resumeToken))).toEqual([
      ["call 0", "done"],
      ["call 1", "done"],
    ]);
    expect(paid).toEqual([1]);
  });

  test("resumes with approval_expired when no answer arrives in time, and only for its own caller", async () => {
    let offset = 0;
    const runtime = { ...systemRuntime, now: () => new Date(Date.now() + offset) };
    const { qm, paid } = await world(undefined, { runtime });
    const turn = await qm.turns.begin(caller);
    turn.noted("late", await qm.invoke("tool__pay", { sum: 1 }, { caller: turn.caller }));
    const { resumeToken } = await turn.suspend(null);

    offset = DAY_MS;

    const other = qm.turns.resume(resumeToken, { caller: { ...caller, tenant: "another" } });
    await expect(other).rejects.toMatchObject({ code: "not_found" });
    expect(endings(await qm.turns.resume(resumeToken, { caller }))).toEqual([["late", "approval_expired"]]);
    expect(paid).toEqual([]);
  });

  test("can be suspended again with a new token and delivers each result once", async () => {
    const { qm, paid } = await world();
    const turn = await qm.turns.begin(caller);
    turn.noted("first", await qm.invoke("tool__pay", { sum: 1 }, { caller: turn.caller }));
    const { resumeToken } = await turn.suspend({ told: [] });
    await answerAll(qm);
    const { turn: again, results } = expectRunning(await qm.turns.resume(resumeToken));

    again.noted("second", await qm.invoke("tool__pay", { sum: 3 }, { caller: again.caller }));
    const suspended = await again.suspend({ told: results.map(({ ref }) => ref) });
    await answerAll(qm);
    const resumed = await qm.turns.resume(suspended.resumeToken);

    expect(suspended.resumeToken).not.toBe(resumeToken);
    await expect(qm.turns.resume(resumeToken)).rejects.toMatchObject({ code: "not_found" });
    expect(expectRunning(resumed).memo).toEqual({ told: ["first"] });
    expect(endings(resumed)).toEqual([["second", "done"]]);
    expect(paid).toEqual([1, 3]);
    await qm.ledger.flush();
    const types = (await qm.ledger.read({})).map(({ type }) => type).filter((type) => type.startsWith("turn."));
    expect(types).toEqual(["turn.suspended", "turn.resumed", "turn.suspended", "turn.resumed"]);
  });
});

test("parts and waiting calls carry the arguments, with known secrets masked", async () => {
  const qm = await createQuartermaster({
    redact: { secrets: () => [{ name: "TOKEN", value: "s3cret-value-1" }] },
    approvals: { worker: false },
  });
  onTestFinished(() => qm.close());
  qm.register({
    name: "mail",
    description: "Sends a mail.",
    inputSchema: { type: "object", properties: { to: { type: "string" }, key: { type: "string" } } },
    scope: "generalist",
    effect: "external",
    requiresApproval: true,
    handler: () => "sent",
  });
  const turn = await qm.turns.begin(caller);
  turn.noted("m", await qm.invoke("tool__mail", { to: "ann", key: "s3cret-value-1" }, { caller: turn.caller }));

  const { parts, resumeToken } = await turn.suspend(null);
  const resumed = await qm.turns.resume(resumeToken);

  const shown = { args: { to: "ann", key: "[secret TOKEN]" }, masked: [{ name: "TOKEN", times: 1 }] };
  expect(parts).toMatchObject([{ partType: "approval-request", data: { ref: "m", ...shown } }]);
  expect(resumed).toMatchObject({ state: "suspended", waiting: [shown] });
});
