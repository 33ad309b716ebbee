import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { atTerminal, cleanUp, createTestFolder, qm as program } from "../src/cli/testing.ts";
import { isRecord, type JsonObject } from "../src/core/json.ts";
import type { Approver } from "../src/index.ts";
import { connected, type Path, paths, said } from "./fixtures/parity-paths.ts";
import {
  type Actor,
  actors,
  BUDGET,
  type Case,
  cases,
  openWorld,
  PAUSE,
  policy,
  type Verdict,
  type World,
} from "./fixtures/parity-world.ts";

// Every path to the invoke pipeline must answer the same question alike: may this actor do this? The expected answers were
// derived by reading the policy, not by running it.

const oracle: Readonly<Record<Actor, Readonly<Record<keyof typeof cases, Verdict>>>> = {
  admin: row("allow allow allow ask deny hidden allow deny"),
  // Its rule denies everything except reading. The other rules hide the same actions from it as from every actor.
  reader: row("allow deny hidden deny deny hidden hidden deny"),
  // Its list has two actions and the shelves, but not the operations that the shelves run.
  guest: row("allow hidden hidden ask hidden hidden hidden hidden"),
  // Its rule hides by tag. The payroll tool is its own.
  clerk: row("allow hidden hidden hidden hidden allow hidden hidden"),
  // Its budget is used up, so a call that would ask is refused.
  spender: row("deny deny hidden deny deny hidden hidden deny"),
  peer: row("allow hidden hidden hidden hidden hidden hidden hidden"),
};

const caseNames = Object.keys(cases) as (keyof typeof cases)[];
const combinations = actors.flatMap((actor) => caseNames.map((what) => ({ actor, what, each: cases[what] as Case })));
const ann: Approver = { id: "ann", roles: ["approver"], via: "test" };

const totals = { combinations: 0, wrongAllows: 0, disagreements: 0 };
/** The problems of one combination on one path: calls that ran wrongly and unexpected answers. */
function findProblems(expected: Verdict, verdicts: readonly Verdict[], runs: number, where: string): readonly string[] {
  totals.combinations++;
  const allowed = expected === "allow" ? verdicts.length : 0;
  const wrong: string[] = [];
  if (runs > allowed) totals.wrongAllows++;
  if (runs !== allowed) wrong.push(`${where}: ran ${runs} times, not ${allowed}`);
  if (verdicts.length === 0 || verdicts.some((verdict) => verdict !== expected))
    wrong.push(`${where}: ${verdicts.join(", ")}, not ${expected}`);
  totals.disagreements += wrong.length;
  return wrong;
}

const worlds = new Map<string, Promise<World>>();
afterAll(async () => {
  for (const world of await Promise.all(worlds.values())) await world.close();
  await cleanUp();
});

function openCached(without: readonly string[]): Promise<World> {
  const key = without.join(" ");
  const world = worlds.get(key) ?? openWorld({ without: new Set(without) });
  worlds.set(key, world);
  return world;
}

const hiddenFrom = (actor: Actor) => [
  ...new Set(caseNames.filter((what) => oracle[actor][what] === "hidden").map((what) => cases[what].name)),
];
const whole = () => openCached([]);
/** The same world without the actions hidden from an actor. The actor must not be able to tell the two apart. */
const twinFor = (actor: Actor) => openCached(hiddenFrom(actor));

let sessions = 0;
async function callOnPath(world: World, path: Path, actor: Actor, each: Case) {
  const line = await path.open(world, actor, `s${sessions++}`);
  if (actor === "spender") for (let left = BUDGET - (path.before ?? 0); left > 0; left--) await line.pause();
  world.ran.length = 0;
  const answers = await line.calls(each);
  const runs = world.ran.length;
  await line.close?.();
  return { answers, runs };
}

describe.each(Object.keys(paths))("%s", (name) => {
  const path = paths[name] as Path;

  test("returns the expected verdicts, runs nothing else and does not reveal hidden actions", async () => {
    const world = await whole();
    const wrong: string[] = [];
    for (const { actor, what, each } of combinations) {
      const counts = path.as ?? actor;
      const { answers, runs } = await callOnPath(world, path, actor, each);

      wrong.push(...findProblems(oracle[counts][what], answers.map(toVerdict), runs, `${actor}, ${what}`));

      if (oracle[counts][what] === "hidden") {
        const without = await callOnPath(await twinFor(counts), path, actor, each);
        expect(serialize(answers), `${actor}, ${what}`).toBe(serialize(without.answers));
      }
    }
    expect(wrong).toEqual([]);
  });
});

type Place = (world: World, actor: Actor, each: Case) => Promise<{ readonly shown: boolean; readonly answer: unknown }>;

/** A place that returns names. The action is shown if its name is among them. */
const naming =
  <Answer>(
    names: (world: World, actor: Actor, each: Case) => Answer,
    found: (answer: Awaited<Answer>) => unknown = (answer) => answer,
  ): Place =>
  async (world, actor, each) => {
    const answer = await names(world, actor, each);
    return { shown: serialize(found(answer)).includes(`"${each.name}"`), answer };
  };
/** A place that returns a description or throws `unknown_action`. */
const describing =
  (describe: (world: World, actor: Actor, each: Case) => unknown): Place =>
  async (world, actor, each) => {
    const answer = await attempt(() => describe(world, actor, each));
    return { shown: !serialize(answer).includes('"unknown_action"'), answer };
  };
const openSurface = async ({ qm }: World, actor: Actor, kind: "universal" | "flat" | "deferred") =>
  qm.surface({ actor, session: "looking" }, kind);
const callTool = async (world: World, actor: Actor, tool: string, args: object) =>
  (await openSurface(world, actor, tool.startsWith("tool_") ? "deferred" : "universal")).call(tool, args);
async function callGateway(world: World, actor: Actor, tool: string, args: JsonObject): Promise<unknown> {
  const client = await connected(world, actor, { era: "legacy", surface: "universal", session: "looking" });
  return said(client, tool, args).finally(() => client.close());
}

const places: Readonly<Record<string, Place>> = {
  list: naming(({ qm }, actor) => qm.list({ limit: 50 }, { actor })),
  "list by category": naming(({ qm }, actor, { name }) =>
    attempt(() => qm.list({ category: [name.slice(0, name.indexOf("__"))], limit: 50 }, { actor })),
  ),
  names: naming(({ qm }, actor) => qm.names({ actor })),
  search: naming(
    ({ qm }, actor, { word }) => qm.search({ query: word }, { actor }),
    ({ items }) => items,
  ),
  "search by its name": naming(
    ({ qm }, actor, { name }) => qm.search({ query: name, type: "exact" }, { actor }),
    ({ items }) => items,
  ),
  describe: describing(({ qm }, actor, { name }) => qm.describe(name, { actor })),
  "inside a call": async ({ qm }, actor, { name }) => {
    const caller = { actor, session: `s${sessions++}` };
    const answer = (await qm.invoke("flow__sees", { name }, { caller })) as { readonly data?: unknown };
    return { shown: answer.data === true, answer: answer.data };
  },
  "tools, flat": naming(async (world, actor) => (await openSurface(world, actor, "flat")).tools),
  "tools, deferred": naming(async (world, actor) => (await openSurface(world, actor, "deferred")).deferred),
  list_actions: naming((world, actor) => callTool(world, actor, "list_actions", { limit: 50 })),
  search_actions: naming((world, actor, { word }) => callTool(world, actor, "search_actions", { query: word })),
  describe_action: describing(
    async (world, actor, { name }) => (await callTool(world, actor, "describe_action", { action_name: name })).data,
  ),
  tool_search: naming(
    (world, actor, { word }) => callTool(world, actor, "tool_search", { query: word }),
    ({ data }) => (data as JsonObject).tools,
  ),
  tool_get: describing(
    async (world, actor, { name }) => (await callTool(world, actor, "tool_get", { names: [name] })).data,
  ),
  "MCP list_actions": naming((world, actor) => callGateway(world, actor, "list_actions", { limit: 50 })),
  "MCP search_actions": naming(
    (world, actor, { word }) => callGateway(world, actor, "search_actions", { query: word }),
    // The answer is text: a line for each action, beginning with its name.
    (answer) => JSON.stringify(answer).match(/[\w.]+__[\w-]+(?=\()/g),
  ),
  "MCP describe_action": describing((world, actor, { name }) =>
    callGateway(world, actor, "describe_action", { action_name: name }),
  ),
};

test.each(Object.keys(places))("%s shows callable actions and nothing about hidden ones", async (name) => {
  const place = places[name] as Place;
  const world = await whole();
  const wrong: string[] = [];
  for (const { actor, what, each } of combinations) {
    const isHidden = oracle[actor][what] === "hidden";
    const { shown, answer } = await place(world, actor, each);

    if (shown === isHidden) wrong.push(`${actor}, ${what}: ${shown ? "shown" : "not shown"}`);

    if (isHidden) {
      const { answer: without } = await place(await twinFor(actor), actor, each);
      expect(serialize(answer), `${actor}, ${what}`).toBe(serialize(without));
    }
  }
  totals.disagreements += wrong.length;
  expect(wrong).toEqual([]);
});

describe("a resumed call", () => {
  const asked = combinations.filter(({ actor, what }) => oracle[actor][what] === "ask");

  /** Makes a call and approves it without running it. */
  async function approveCall({ qm }: World, actor: Actor, each: Case, session = `s${sessions++}`) {
    const caller = { actor, session };
    const outcome = await qm.invoke(each.name, each.args(1), { caller });
    if (outcome.status !== "waiting") return expect.fail(`${actor}, ${each.name}: ${outcome.status}, not waiting`);
    await qm.approvals.answer(outcome.approval.id, { decision: "approved" }, ann);
    return { caller, id: outcome.approval.id };
  }

  test("runs once if the rights are unchanged", async () => {
    const world = await openWorld();
    const { qm, ran } = world;
    const wrong: string[] = [];
    for (const { actor, what, each } of asked) {
      const { id, caller } = await approveCall(world, actor, each);

      await qm.approvals.run();
      await qm.approvals.run();

      const outcome = await qm.approvals.outcome(id, { caller, timeoutMs: 0 });
      wrong.push(...findProblems("allow", [toVerdict(outcome)], ran.splice(0).length, `${actor}, ${what}`));
    }
    await world.close();
    expect(wrong).toEqual([]);
  });

  test("does not run if the actor has lost the right meanwhile", async () => {
    const world = await openWorld();
    const { qm, ran } = world;
    const wrong: string[] = [];
    for (const { actor, what, each } of combinations) {
      // Every action asks, and this actor may call every action.
      const others = policy.actors.filter(({ name }) => name !== actor).map(({ name }) => ({ name, tools: [] }));
      qm.usePolicy({
        actors: [{ name: actor, tools: ["*", "payroll"] }, ...others],
        rules: [{ rule: "true", effect: "ask" }],
      });
      const { id, caller } = await approveCall(world, actor, each);

      qm.usePolicy(policy);
      await qm.approvals.run();

      const outcome = await qm.approvals.outcome(id, { caller, timeoutMs: 0 });
      wrong.push(...findProblems("deny", [toVerdict(outcome)], ran.splice(0).length, `${actor}, ${what}`));
    }
    await world.close();
    expect(wrong).toEqual([]);
  });

  test.each(asked)("$actor: $what does not run if the host has hidden it meanwhile", async (one) => {
    let hides = false;
    const world = await openWorld({
      visibility: { visibleTools: (actions) => actions.filter(({ name }) => !hides || name !== one.each.name) },
    });
    const { id, caller } = await approveCall(world, one.actor, one.each);
    hides = true;

    await world.qm.approvals.run();

    const outcome = await world.qm.approvals.outcome(id, { caller, timeoutMs: 0 });
    const wrong = findProblems("deny", [toVerdict(outcome)], world.ran.length, `${one.actor}, ${one.what}`);
    await world.close();
    expect(wrong).toEqual([]);
  });

  test.each(asked)("$actor: $what does not run if the budget was used up meanwhile", async ({ actor, what, each }) => {
    const world = await openWorld();
    const { id, caller } = await approveCall(world, actor, each);
    for (let left = BUDGET; left > 0; left--) await world.qm.invoke(PAUSE, {}, { caller });

    await world.qm.approvals.run();

    const outcome = await world.qm.approvals.outcome(id, { caller, timeoutMs: 0 });
    const wrong = findProblems("deny", [toVerdict(outcome)], world.ran.length, `${actor}, ${what}`);
    await world.close();
    expect(wrong).toEqual([]);
  });
});

describe("the CLI", () => {
  // The configuration offers the real file actions: none for peers, no specialists and no resources.
  const callers = actors.filter((actor) => actor !== "peer");
  const fileCases = caseNames.filter((what) => cases[what].name.startsWith("file__"));
  const config = JSON.stringify({
    providers: { file: { read_only: false } },
    policy: { rules: policy.rules, budgets: policy.budgets },
    actors: Object.fromEntries(
      policy.actors.map(({ name, scope, tools }) => [
        name,
        { scope, tools: tools.filter((each) => each !== "payroll") },
      ]),
    ),
    mcp: { install: false },
    approvals: { approvers: { ann: { roles: ["approver"], token: `\${secret:ANN_TOKEN}` } } },
  });
  const token = "the-token-of-an-approver";
  const env = { QM_APPROVER_TOKEN: token };
  const pages = Object.fromEntries(fileCases.map((_, at) => [`page-${at}`, "old"]));
  const files = { "quartermaster.yaml": config, ...pages };
  const exits: Record<Verdict, number> = { allow: 0, ask: 3, deny: 3, hidden: 4 };

  async function json(cwd: string, caller: { actor: Actor; session?: string } | undefined, ...argv: readonly string[]) {
    const options = caller && ["--actor", caller.actor, "--session", caller.session ?? "looking"];
    const { out, code } = await program(cwd, ["--json", ...(options ?? []), ...argv], { env });
    return { code, answer: JSON.parse(out) as JsonObject };
  }

  /** How often a call with these arguments took effect. The effect of a read is its answer. */
  function effects(cwd: string, name: string, args: JsonObject, answer: JsonObject): number {
    const text = textAt(join(cwd, String(args.path)));
    if (name === "file__read") return JSON.stringify(answer).includes("old") ? 1 : 0;
    return text === (name === "file__delete" ? undefined : "new") ? 1 : 0;
  }

  test.each(callers)("returns the expected verdicts for %s and shows what it can call", async (actor) => {
    const cwd = await createTestFolder(files);
    const wrong: string[] = [];
    const listed = JSON.stringify((await json(cwd, { actor }, "list", "--all")).answer);
    const spend = actor === "spender" ? BUDGET : 0;
    for (let left = spend; left > 0; left--) await json(cwd, { actor, session: "spent" }, "invoke", "file__list");

    for (const [at, what] of fileCases.entries()) {
      const { name, args } = cases[what];
      const given = args(at);
      const caller = { actor, session: spend > 0 ? "spent" : `s${at}` };
      const expected = oracle[actor][what];
      const { code, answer } = await json(cwd, caller, "invoke", name, JSON.stringify(given));

      const verdict = answer.status === "done" ? "allow" : toVerdict(answer);
      wrong.push(...findProblems(expected, [verdict], effects(cwd, name, given, answer), what));
      expect(code, what).toBe(exits[expected]);
      const found = JSON.stringify((await json(cwd, { actor }, "search", name)).answer.items);
      const described = await json(cwd, { actor }, "describe", name);
      const shown = [listed.includes(`"${name}"`), found.includes(`"${name}"`), described.code === 0];
      expect(shown, what).toEqual(Array.from({ length: 3 }, () => expected !== "hidden"));
      if (expected === "hidden") {
        const unknown = await json(cwd, caller, "invoke", "file__dance", JSON.stringify(given));
        expect(withoutName(answer, name), what).toEqual(withoutName(unknown.answer, "file__dance"));
      }
    }
    expect(wrong).toEqual([]);
  });

  test("runs an approved call, unless the actor has lost the right meanwhile", async () => {
    const each = cases["what a person is asked about"];
    const wrong: string[] = [];
    for (const expected of ["allow", "deny"] as const) {
      const cwd = await createTestFolder(files);
      await program(cwd, ["secrets", "set", "ANN_TOKEN"], atTerminal(`${token}\n`));
      const { answer } = await json(cwd, { actor: "guest" }, "invoke", each.name, JSON.stringify(each.args(1)));
      const { id = "" } = answer.approval as { readonly id?: string };
      await json(cwd, undefined, "approvals", "approve", id, "--yes", "--no-run");
      if (expected === "deny")
        writeFileSync(join(cwd, "quartermaster.yaml"), config.replace('"file__read","file__edit"', '"file__read"'));

      const { answer: ended } = await json(cwd, undefined, "approvals", "run", id);

      const { status, error } = ended.outcome as JsonObject;
      const runs = effects(cwd, each.name, each.args(1), answer);
      wrong.push(...findProblems(expected, [status === "done" ? "allow" : toVerdict(error)], runs, expected));
    }
    expect(wrong).toEqual([]);
  });
});

test("all paths agree, and none wrongly allows a call", () => {
  const { combinations: count, wrongAllows, disagreements } = totals;

  process.stdout.write(
    `policy parity: ${count} combinations of actor, action and path, wrong allows ${wrongAllows}, disagreements ${disagreements}\n`,
  );

  expect({ count, wrongAllows, disagreements }).toEqual({ count: 705, wrongAllows: 0, disagreements: 0 });
});

/** The expected verdicts, in the order of the cases. */
function row(verdicts: string): Record<keyof typeof cases, Verdict> {
  const words = verdicts.split(" ") as Verdict[];
  return Object.fromEntries(Object.keys(cases).map((name, at) => [name, words[at]])) as never;
}

/** Maps an answer from any path to a verdict. */
function toVerdict(answer: unknown): Verdict {
  if (!isRecord(answer)) return expect.fail(`this is no answer: ${JSON.stringify(answer)}`);
  const said = [answer, answer.error, answer.data].find((part) => isRecord(part) && ("code" in part || "did" in part));
  const { code, status, did } = (said ?? answer) as JsonObject;
  if (code === "unknown_action") return "hidden";
  if (code === "denied" || code === "budget_exceeded" || code === "approval_expired") return "deny";
  if (status === "waiting") return "ask";
  if (code === undefined && did !== undefined) return "allow";
  return expect.fail(`nobody knows what this means: ${JSON.stringify(answer)}`);
}

/** Serializes an answer without its call ids. */
function serialize(answer: unknown): string {
  const isOwn = (key: string) => ["callId", "quartermaster/callId"].includes(key);
  return JSON.stringify(answer, (key, value) => (isOwn(key) ? undefined : value)) ?? "nothing";
}

async function attempt(work: () => unknown): Promise<unknown> {
  try {
    return await work();
  } catch (thrown) {
    return (thrown as { toProblem(): unknown }).toProblem();
  }
}

/** The error for an unknown action, without the action's name and the call id. */
function withoutName({ error }: JsonObject, name: string): unknown {
  const { call_id: _id, suggestions: _names, ...rest } = error as JsonObject;
  return JSON.parse(JSON.stringify(rest).replaceAll(name, "it"));
}

function textAt(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}
