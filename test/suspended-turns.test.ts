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

// A model loop that is put away while people are asked, and gone on with by whichever process is there afterwards. The
// processes are real, and so are the AI SDK, the store, the program at which people answer, and the way processes end.

const SCRIPT = findCompiled(new URL("fixtures/turn-process.ts", import.meta.url));
const DAY_MS = 86_400_000;
const ann: Approver = { id: "ann", roles: ["approver"], via: "test" };
const agreed = { decision: "approved" } as const;
const refused = { decision: "denied", reason: "not today" } as const;

afterEach(cleanUp);

interface Place {
  readonly cwd: string;
  readonly store: string;
  /** Somebody who looks and answers, and runs nothing. */
  readonly desk: Quartermaster["approvals"];
  /** A line for each effect that a call has had. */
  effects(): readonly string[];
  process(): Promise<Host>;
}

/** A process with a model loop. */
interface Host {
  begin(to: string): Promise<Suspended>;
  /** Several at once. */
  resumeAll(tokens: readonly string[]): Promise<readonly Told[]>;
  resume(token: string): Promise<Told | undefined>;
  save(token: string): Promise<Told>;
  finish(token: string): Promise<Complete>;
  /** Without its having a say in it. */
  kill(): Promise<void>;
}

type Suspended = Extract<Told, { token: string }>;
type Complete = Extract<Told, { words: string }>;

async function place(): Promise<Place> {
  const cwd = await createTestFolder({ "quartermaster.yaml": SHELL_CONFIG });
  const [store, effects] = [join(cwd, "store.db"), join(cwd, "effects")];
  const looking = await createQuartermaster({ store, approvals: { worker: false } });
  onTestFinished(() => looking.close());
  return {
    cwd,
    store,
    desk: looking.approvals,
    effects: () => (existsSync(effects) ? readFileSync(effects, "utf8").trim().split("\n") : []),
    process: () => hostOf(store, effects),
  };
}

async function hostOf(store: string, effects: string): Promise<Host> {
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

/** Turns that each wait for two people, left by a process that is gone. */
async function suspendedIn<To extends readonly string[]>(at: Place, ...to: To) {
  const first = await at.process();
  const told: Suspended[] = [];
  for (const whom of to) told.push(await first.begin(whom));
  await first.kill();
  return told as { readonly [Key in keyof To]: Suspended };
}

/** Answers both questions of a turn, and waits until there is nobody to wait for any more. */
async function answeredAll({ desk }: Place, { approvals }: Suspended): Promise<void> {
  const { "call-pay": pay = "", "call-mail": mail = "" } = approvals;
  await Promise.all([desk.answer(pay, agreed, ann), desk.answer(mail, refused, ann)]);
  await ended(desk, pay, mail);
}

/** Whatever runs it, and wherever. */
async function ended(desk: Quartermaster["approvals"], ...ids: readonly string[]): Promise<void> {
  const outcomes = await Promise.all(ids.map((id) => desk.outcome(id, { timeoutMs: 30_000 })));
  expect(outcomes.map(({ status }) => status)).not.toContain("waiting");
}

const RESULTS = [
  ["call-pay", "done"],
  ["call-mail", "tool_denied"],
];

/** What the model must have been told of its three calls, each once. */
function expectSeen({ words, seen }: Complete, to: string): void {
  expect(words).toBe("I have done what I could.");
  expect(seen).toEqual([
    { id: "call-look", text: `{"did":"look","to":"${to}"}`, failed: false },
    { id: "call-pay", text: `{"did":"pay","to":"${to}"}`, failed: false },
    { id: "call-mail", text: expect.stringContaining("not today"), failed: true },
  ]);
  expect(JSON.parse(seen[2]?.text ?? "")).toMatchObject({ code: "tool_denied" });
}

describe("a turn with three calls at once, of which two wait", () => {
  test("outlives its process, waits for everybody, and goes on in another with exactly what became of them", async () => {
    const at = await place();
    const [{ token, approvals }] = await suspendedIn(at, "Ann");
    const { "call-pay": pay = "", "call-mail": mail = "" } = approvals;
    expect(Object.keys(approvals)).toEqual(["call-pay", "call-mail"]);
    expect(at.effects()).toEqual(["look Ann"]);
    const second = await at.process();
    const both = { state: "suspended", waiting: ["call-pay", "call-mail"], results: [] };
    expect(await second.resume(token)).toEqual(both);

    await atTheShell(at, "approve", pay, "--no-run");
    await ended(at.desk, pay);
    // Asking after what is there takes nothing away, however often.
    for (let time = 0; time < 2; time++) {
      const one = { state: "suspended", waiting: ["call-mail"], results: ["call-pay"] };
      expect(await second.resume(token)).toEqual(one);
    }
    await atTheShell(at, "deny", mail, "--reason", "not today");

    expect(await second.resume(token)).toEqual({ state: "running", results: RESULTS });
    expectSeen(await second.finish(token), "Ann");
    expect(at.effects()).toEqual(["look Ann", "pay Ann"]);
    expect(await second.resume(token)).toEqual({ code: "conflict" });
  });

  test("is given to one of those who want to go on with it at the same time", async () => {
    const at = await place();
    const people = Array.from({ length: 20 }, (_, index) => `person-${index}`);
    const [turns, ...hosts] = await Promise.all([suspendedIn(at, ...people), at.process(), at.process(), at.process()]);
    for (const turn of turns) await answeredAll(at, turn);
    const tokens = turns.map(({ token }) => token);

    const told = await Promise.all(hosts.map((host) => host.resumeAll(tokens)));

    for (const [index, token] of tokens.entries()) {
      const heard = told.map((each) => each[index]);
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
    ["before it has kept anything: everything is told again", false, RESULTS],
    ["after it has kept what it was told: nothing is told again", true, []],
  ])("goes on elsewhere when the process that goes on with it dies %s", async (_, keeps, results) => {
    const at = await place();
    const [second, third, [turn]] = await Promise.all([at.process(), at.process(), suspendedIn(at, "Ann")]);
    await answeredAll(at, turn);
    expect(await second.resume(turn.token)).toEqual({ state: "running", results: RESULTS });
    if (keeps) expect(await second.save(turn.token)).toEqual({ state: "saved" });
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

/** Somebody at another shell. */
async function atTheShell({ cwd }: Place, verb: "approve" | "deny", id: string, ...more: readonly string[]) {
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

/** Somebody who pays when a person agrees, and `pays`, which pays several sums as it is told to. */
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
const sumOf = ({ args }: { readonly args: unknown }) => (args as { readonly sum: number }).sum;

/** Says no to 2 and yes to everything else, and waits for how it ends. */
async function answerAll({ approvals }: Quartermaster): Promise<void> {
  const waiting = await approvals.list({ state: "pending" });
  for (const each of waiting) await approvals.answer(each.id, sumOf(each) === 2 ? refused : agreed, ann);
  await ended(approvals, ...waiting.map(({ id }) => id));
}

function running(resumed: ResumedTurn): Extract<ResumedTurn, { state: "running" }> {
  return resumed.state === "running" ? resumed : expect.fail(`the turn is ${resumed.state}`);
}

const how = (outcome: Outcome) => ("error" in outcome ? outcome.error.code : outcome.status);
const endings = (resumed: ResumedTurn) => running(resumed).results.map(({ ref, outcome }) => [ref, how(outcome)]);

describe("calls that wait inside another", () => {
  test("in parallel, which it waits for itself: the turn waits for nobody but for it", async () => {
    const { qm, paid } = await world(async ({ invoke, settled }) => {
      const outcomes = await Promise.all([1, 2, 3].map((sum) => invoke("tool__pay", { sum })));
      return (await Promise.all(outcomes.map(settled))).map(how);
    });
    const turn = await qm.turns.begin(caller);

    const call = qm.invoke("tool__pays", {}, { caller: turn.caller });
    await expect.poll(async () => (await qm.approvals.list({ state: "pending" })).length).toBe(3);
    await answerAll(qm);
    const outcome = await call;
    turn.noted("pays", outcome);

    expect(outcome).toMatchObject({ status: "done", data: ["done", "tool_denied", "done"] });
    expect(paid.toSorted()).toEqual([1, 3]);
    await expect(turn.suspend(null)).rejects.toMatchObject({ code: "conflict" });
    await turn.end("complete");
  });

  test("in a list, two at a time, which it hands on: the turn waits for all of them, each by a name of its own", async () => {
    // The way that `map` over a collection will take.
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
    expect(running(resumed).memo).toEqual({ messages: ["pay them all"] });
    expect(endings(resumed)).toEqual([
      ["pays 0", "done"],
      ["pays 1", "tool_denied"],
      ["pays 2", "done"],
      ["pays 3", "done"],
    ]);
    expect(paid.toSorted()).toEqual([1, 3, 4]);
  });
});

describe("one turn", () => {
  test("that asks the same twice at once asks once, and is told of both", async () => {
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

  test("goes on when nobody has answered in time, and is told so; another caller's it is not", async () => {
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

  test("can wait again after it has gone on, by the same token, and is not told again of what it was told", async () => {
    const { qm, paid } = await world();
    const turn = await qm.turns.begin(caller);
    turn.noted("first", await qm.invoke("tool__pay", { sum: 1 }, { caller: turn.caller }));
    const { resumeToken } = await turn.suspend({ told: [] });
    await answerAll(qm);
    const { turn: again, results } = running(await qm.turns.resume(resumeToken));

    again.noted("second", await qm.invoke("tool__pay", { sum: 3 }, { caller: again.caller }));
    const suspended = await again.suspend({ told: results.map(({ ref }) => ref) });
    await answerAll(qm);
    const resumed = await qm.turns.resume(suspended.resumeToken);

    expect(suspended.resumeToken).toBe(resumeToken);
    expect(running(resumed).memo).toEqual({ told: ["first"] });
    expect(endings(resumed)).toEqual([["second", "done"]]);
    expect(paid).toEqual([1, 3]);
    await qm.ledger.flush();
    const types = (await qm.ledger.read({})).map(({ type }) => type).filter((type) => type.startsWith("turn."));
    expect(types).toEqual(["turn.suspended", "turn.resumed", "turn.suspended", "turn.resumed"]);
  });
});
