import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createQuartermaster } from "../src/index.ts";
import { openSqlite } from "../src/store/drivers/sqlite.ts";
import { type SqlQuery, type SqlRow, sql } from "../src/store/sql.ts";
import type { Hook, Look, Said, SaidOutcome, Step, Visit } from "./fixtures/approving-process.ts";
import { findCompiled } from "./support/compiled.ts";

// A call that needs approval, and a process that is killed at one point of it. A second and a third process open its store,
// recover it, answer again and call again. Seven points, each with seven courses of events.

const DAY_MS = 86_400_000;
const AGREED = { sum: 5 };
const OTHER = { sum: 6 };

interface Place {
  /** Where the process kills itself. The default is between two steps. */
  readonly killIn?: Hook;
  /** The steps of the first process. `answer` stands for the answer of the course of events. */
  readonly steps: readonly (Step | "answer")[];
  /** The state after the crash, except for a denied call. */
  readonly leaves: { readonly state: string; readonly begun: boolean; readonly lines: number };
}

const run = ["call", "answer", "run", "die"] as const;
const places = {
  "before the request is stored": {
    killIn: "preview",
    steps: ["call"],
    leaves: { state: "none", begun: false, lines: 0 },
  },
  "while the call waits": { steps: ["call", "die"], leaves: { state: "pending", begun: false, lines: 0 } },
  "approved, not claimed": {
    steps: ["call", "answer", "die"],
    leaves: { state: "approved", begun: false, lines: 0 },
  },
  "claimed, not begun": {
    killIn: "visibility",
    steps: run,
    leaves: { state: "executing", begun: false, lines: 0 },
  },
  "in the handler": { killIn: "handler", steps: run, leaves: { state: "executing", begun: true, lines: 1 } },
  "after the handler, outcome not stored": {
    killIn: "delivery",
    steps: run,
    leaves: { state: "executing", begun: true, lines: 1 },
  },
  "outcome stored, not in the ledger": {
    killIn: "record",
    steps: run,
    leaves: { state: "done", begun: true, lines: 1 },
  },
} as const satisfies Record<string, Place>;

interface Course {
  readonly answer: readonly Step[];
  /** The results of the answers to a pending request. */
  readonly heard: readonly string[];
  /** The arguments in the store are changed after the crash. */
  readonly rewritten?: boolean;
  /** In the second process, the policy denies the action to the caller. The third has the first policy again. */
  readonly revoked?: boolean;
  /** How far the clock is ahead in the second process. The third is ahead by twice that. */
  readonly aheadMs?: number;
}

const approve = { answer: ["approve"], heard: ["counted"] } as const;
const courses = {
  "nothing else": approve,
  "double approval": { answer: ["approve twice"], heard: ["conflict", "counted"] },
  "changed arguments": { ...approve, rewritten: true },
  "revoked actor": { ...approve, revoked: true },
  "wrong role": { answer: ["approve as a viewer", "approve"], heard: ["counted", "denied"] },
  expired: { ...approve, aheadMs: 2 * DAY_MS },
  denied: { answer: ["deny"], heard: ["counted"] },
} as const satisfies Record<string, Course>;

type PlaceName = keyof typeof places;
type CourseName = keyof typeof courses;

/** The expected final state. */
interface End {
  readonly state: string;
  /** How often it ran. */
  readonly lines: number;
  /** How often the ledger records the end of the call. */
  readonly ends: number;
  /** The answer to the first repeated call. */
  readonly told: string;
}

const ran: End = { state: "done", lines: 1, ends: 1, told: "done" };
const cutOff: End = { state: "interrupted", lines: 1, ends: 1, told: "interrupted" };
/** Approved, but not run, because the call is no longer the approved one. */
const voided: End = { state: "expired", lines: 0, ends: 1, told: "approval_expired" };
/** These calls were never resumed. The ledger records their end as `approval.expired` and `approval.decided`. */
const late: End = { state: "expired", lines: 0, ends: 0, told: "approval_expired" };
const refused: End = { state: "denied", lines: 0, ends: 0, told: "tool_denied" };
/** No request was stored before the caller lost its rights. It makes the first request when it has them again. */
const asksAnew: End = { state: "pending", lines: 0, ends: 0, told: "waiting" };

// Four cases cannot be reached. A denied call is never claimed, so the process that wants to run it finds nothing and is
// killed after that. If no request was stored, none can be changed or expire. In these cases the second process makes the
// request, and the third finds it changed or expired.
const expected: Readonly<Record<PlaceName, readonly [End, End, End, End, End, End, End]>> = {
  // nothing else, double approval, changed arguments, revoked actor, wrong role, expired, denied
  "before the request is stored": [ran, ran, voided, asksAnew, ran, late, refused],
  "while the call waits": [ran, ran, voided, voided, ran, late, refused],
  "approved, not claimed": [ran, ran, voided, voided, ran, late, refused],
  "claimed, not begun": [ran, ran, voided, voided, ran, late, refused],
  "in the handler": [cutOff, cutOff, cutOff, cutOff, cutOff, cutOff, refused],
  "after the handler, outcome not stored": [cutOff, cutOff, cutOff, cutOff, cutOff, cutOff, refused],
  "outcome stored, not in the ledger": [ran, ran, ran, ran, ran, ran, refused],
};

interface Case {
  readonly at: PlaceName;
  readonly with: CourseName;
  readonly place: Place;
  readonly course: Course;
  readonly end: End;
  readonly store: string;
  readonly effects: string;
}

/** The observations of a case. */
interface Seen {
  readonly left: Left;
  readonly first: Process;
  readonly second: Process;
  readonly third: Process;
  /** The id of the approval. */
  readonly id: string | undefined;
  /** The arguments of every run. */
  readonly lines: readonly unknown[];
  /** The calls that the ledger ends more than once. */
  readonly endedTwice: readonly SqlRow[];
}

/** The state in the files after the first process. */
type Left = Place["leaves"] & { readonly ends: number };

/** The output of a process about one store, and how it ended. */
interface Process {
  readonly signal: string | null;
  readonly status: number | null;
  readonly said: readonly Said[];
}

const folder = mkdtempSync(join(tmpdir(), "qm-approval-crash-"));
const children = new Set<ChildProcess>();
const placeNames = Object.keys(places) as PlaceName[];
const courseNames = Object.keys(courses) as CourseName[];
const cases: readonly Case[] = placeNames.flatMap((at, row) =>
  courseNames.map((name, column) => ({
    at,
    with: name,
    place: places[at],
    course: courses[name],
    end: expected[at][column] ?? expect.fail("the table has a hole"),
    store: join(folder, `${row}-${column}.db`),
    effects: join(folder, `${row}-${column}.txt`),
  })),
);
const seen = new Map<Case, Seen>();

afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

describe("a process killed", () => {
  beforeAll(async () => {
    const firsts = (await inPairs(cases, (each) => visited([firstVisit(each)]))).flat();
    const lefts = await inPairs(cases, leftBy);
    await rewriteSome(({ course, place }) => course.rewritten === true && !isAskedLater(place));
    const asked = firsts.map(questionIn);
    const seconds = await placeByPlace((each, at) => secondVisit(each, asked[at]));
    await rewriteSome(({ course, place }) => course.rewritten === true && isAskedLater(place));
    const ids = seconds.map((second, at) => asked[at] ?? questionIn(second));
    const thirds = await placeByPlace((each, at) => thirdVisit(each, ids[at]));
    for (const [at, each] of cases.entries()) {
      const [left, first, second, third] = [lefts[at], firsts[at], seconds[at], thirds[at]];
      if (!left || !first || !second || !third) expect.fail("there is a process for every case");
      const endedTwice = await inStore(
        each,
        sql`select call_id from events where type = 'call.ended' group by call_id having count(*) > 1`,
      );
      seen.set(each, { left, first, second, third, id: ids[at], lines: linesOf(each), endedTwice });
    }
  }, 600_000);

  describe.each(placeNames)("%s", (at) => {
    test.each(cases.filter((each) => each.at === at))("$with", (each) => {
      const { place, course, end } = each;
      const { left, first, second, third, id, lines, endedTwice } = seenOf(each);
      const isDenied = each.with === "denied" && place.steps.includes("answer");

      expect(first.signal).toBe("SIGKILL");
      expect([second.status, third.status]).toEqual([0, 0]);
      expect(left).toEqual({ ...(isDenied ? { state: "denied", begun: false, lines: 0 } : place.leaves), ends: 0 });
      // Only a process that found nothing to run got past the step.
      expect(runsIn(first)).toEqual(isDenied && place.steps.includes("run") ? [0] : []);

      expect(lines).toEqual(Array.from({ length: end.lines }, () => AGREED));
      expect(lookIn(second).broken).toEqual([]);
      expect(lookIn(third)).toEqual({ state: end.state, ends: end.ends, broken: [] });
      expect(endedTwice).toEqual([]);

      // One answer in time counts. Later answers do not.
      const answers = [first, second, third].map(answersIn);
      const isAnswered = place.steps.includes("answer") || (end !== late && end !== asksAnew);
      if (isAnswered) expect(answers.find((given) => given.length > 0)?.toSorted()).toEqual(course.heard);
      expect(answers.flat().filter((answer) => answer === "counted")).toHaveLength(isAnswered ? 1 : 0);
      const tooLate = end.state === "expired" ? "approval_expired" : "conflict";
      expect(answers.at(-1)).toEqual([end === asksAnew ? "not_found" : tooLate]);

      // The caller gets the outcome once. After that, the same call is a new request.
      const calls = callsAfterwards(each);
      const hidden = course.revoked ? ["unknown_action"] : [];
      expect(calls.map((call) => call.as).slice(0, hidden.length + 1)).toEqual([...hidden, end.told]);
      const [told, ...anew] = calls.slice(hidden.length);
      if (end.told === "done") expect(told?.data).toEqual({ paid: AGREED.sum });
      if (end.told === "interrupted") expect(told?.hint).toMatch(/check before/);
      expect(anew.length).toBeGreaterThan(0);
      for (const call of anew) {
        expect(call.as).toBe("waiting");
        expect(call.approval).not.toBe(id);
      }

      // A call with other arguments is a new request, too.
      const others = callsIn(third, "call with other arguments");
      expect(others.map((call) => call.as)).toEqual(course.rewritten ? ["waiting"] : []);
      for (const { approval } of others) expect([id, ...anew.map((call) => call.approval)]).not.toContain(approval);
    });
  });

  test("loses no call, and runs none twice, after a denial or with other arguments", () => {
    const count = (is: (each: Case, seen: Seen) => boolean) => cases.filter((each) => is(each, seenOf(each))).length;
    const isTold = (each: Case) => callsAfterwards(each).some((call) => call.as === each.end.told);
    const isOther = (line: unknown) => JSON.stringify(line) !== JSON.stringify(AGREED);
    const totals = {
      cases: cases.length,
      ran: count((_, { lines }) => lines.length > 0),
      lost: count((each, { lines }) => lines.length < each.end.lines || !isTold(each)),
      "run twice": count((_, { lines }) => lines.length > 1),
      "run after denial": count((each, { lines }) => each.with === "denied" && lines.length > 0),
      "run with other arguments": count((_, { lines }) => lines.some(isOther)),
    };
    const text = Object.entries(totals).map(([what, number]) => `${what} ${number}`);

    process.stdout.write(`approvals and crashes: ${text.join(", ")}\n`);

    const none = { lost: 0, "run twice": 0, "run after denial": 0, "run with other arguments": 0 };
    expect(totals).toEqual({ cases: 49, ran: 30, ...none });
  });
});

describe("a call without its end in the ledger", () => {
  const left = async (killIn: Hook) => {
    const own = mkdtempSync(join(folder, "own-"));
    const visit = { store: join(own, "store.db"), effects: join(own, "effects.txt") };
    const [first] = await visited([{ ...visit, killIn, steps: ["call", "approve", "run"] }]);
    return { ...visit, id: first && questionIn(first) };
  };

  test.each<Hook>(["handler", "record"])(
    "gets one end when the process is killed in the %s, and the next one during recovery",
    async (killIn) => {
      const visit = await left(killIn);

      const [second] = await visited([{ ...visit, killIn: "clearing up", steps: ["run"] }]);
      const [third] = await visited([{ ...visit, steps: ["run", "run", "look"] }]);

      expect(second).toMatchObject({ signal: "SIGKILL", said: [] });
      const state = killIn === "handler" ? "interrupted" : "done";
      expect(third && lookIn(third)).toEqual({ state, ends: 1, broken: [] });
      const told = await inStore(visit, sql`select id from events where type = 'approval.interrupted'`);
      expect(told).toHaveLength(killIn === "handler" ? 1 : 0);
    },
  );

  test.each<Hook>(["delivery", "record"])(
    "gets one end when the process is killed in the %s, and two recover at the same time",
    async (killIn) => {
      const { store } = await left(killIn);
      const both = [await waitingOn(store), await waitingOn(store)];

      await Promise.all(both.map(({ approvals }) => approvals.run()));
      await Promise.all(both.map((each) => each.close()));

      expect(await inStore({ store }, sql`select id from events where type = 'call.ended'`)).toHaveLength(1);
    },
  );

  const waitingOn = (store: string) => createQuartermaster({ store, approvals: { worker: false } });
});

function firstVisit({ store, effects, place, course }: Case): Visit {
  const steps = place.steps.flatMap((step) => (step === "answer" ? course.answer : [step]));
  return { store, effects, steps, killIn: place.killIn };
}

/** Whether the second process makes the request. */
function isAskedLater({ leaves }: Place): boolean {
  return leaves.state === "none";
}

function secondVisit({ store, effects, place, course }: Case, id: string | undefined): Visit {
  const { answer, revoked = false, aheadMs = 0 } = course;
  const visit = { store, effects, id, revoked, aheadMs };
  const whole: readonly Step[] = ["run", ...answer, "run", "call", "look"];
  if (!isAskedLater(place)) return { ...visit, steps: whole };
  if (course.rewritten) return { ...visit, steps: ["call", ...answer, "look"] };
  if (revoked || aheadMs > 0) return { ...visit, steps: ["call", "run", "look"] };
  return { ...visit, steps: ["call", ...whole] };
}

function thirdVisit({ store, effects, course }: Case, id: string | undefined): Visit {
  const other: readonly Step[] = course.rewritten ? ["call with other arguments"] : [];
  const steps: readonly Step[] = ["run", "approve", "run", "call", "call", ...other, "look"];
  return { store, effects, id, steps, aheadMs: 2 * (course.aheadMs ?? 0) };
}

/** A process for each place, which visits the stores of its cases one after another. */
async function placeByPlace(visit: (each: Case, at: number) => Visit): Promise<readonly Process[]> {
  const visits = cases.map(visit);
  const groups = placeNames.map((_, row) => visits.slice(row * courseNames.length, (row + 1) * courseNames.length));
  return (await inPairs(groups, visited)).flat();
}

/** Runs one process for the visits, and returns its output for each. */
async function visited(visits: readonly Visit[]): Promise<readonly Process[]> {
  const script = findCompiled(new URL("fixtures/approving-process.ts", import.meta.url));
  const child = spawn(process.execPath, [script, JSON.stringify(visits)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.add(child);
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  const [status, signal] = (await once(child, "close")) as [number | null, string | null];
  children.delete(child);
  const lines = text.split("\n").filter((line) => line !== "");
  const all = lines.map((line) => JSON.parse(line) as Said & { readonly store: string });
  return visits.map(({ store }) => ({ status, signal, said: all.filter((each) => each.store === store) }));
}

/** Reads the state directly from the database, before any recovery. */
async function leftBy(each: Case): Promise<Left> {
  const [row] = await inStore(each, sql`select state, begun_at from approvals`);
  const ended = await inStore(
    each,
    sql`select id from events where type = 'call.ended' and call_id in (select call_id from approvals)`,
  );
  const begun = typeof row?.begun_at === "string";
  return { state: String(row?.state ?? "none"), begun, lines: linesOf(each).length, ends: ended.length };
}

/** Replaces the stored arguments. */
async function rewriteSome(isMeant: (each: Case) => boolean): Promise<void> {
  for (const each of cases.filter(isMeant)) {
    const rows = await inStore(each, sql`update approvals set args = ${JSON.stringify(OTHER)} returning id`);
    expect(rows).toHaveLength(1);
  }
}

async function inStore({ store }: Pick<Case, "store">, query: SqlQuery): Promise<readonly SqlRow[]> {
  const db = await openSqlite(store);
  try {
    return await db.all(query);
  } finally {
    await db.close();
  }
}

function linesOf({ effects }: Case): readonly unknown[] {
  if (!existsSync(effects)) return [];
  const lines = readFileSync(effects, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as unknown);
}

function seenOf(each: Case): Seen {
  return seen.get(each) ?? expect.fail("it did not take place");
}

/** The answers to repeated calls, in the second and the third process. */
function callsAfterwards(each: Case): readonly SaidOutcome[] {
  const { second, third } = seenOf(each);
  const [asking, ...rest] = callsIn(second);
  const again = isAskedLater(each.place) && asking?.as === "waiting" ? rest : callsIn(second);
  return [...again, ...callsIn(third)];
}

/** The approval id of a process's first call. */
function questionIn(from: Process): string | undefined {
  return callsIn(from)[0]?.approval;
}

function callsIn({ said }: Process, step: "call" | "call with other arguments" = "call"): readonly SaidOutcome[] {
  return said.flatMap((each) => (each.step === step ? [each.said as SaidOutcome] : []));
}

function runsIn({ said }: Process): readonly number[] {
  return said.flatMap((each) => (each.step === "run" ? [each.said] : []));
}

function answersIn({ said }: Process): readonly string[] {
  return said.flatMap((each) => (Array.isArray(each.said) ? each.said : []));
}

function lookIn({ said }: Process): Look {
  const look = said.find((each) => each.step === "look") ?? expect.fail("it did not look");
  return look.said as Look;
}

/** Works on two items at a time. */
async function inPairs<T, R>(items: readonly T[], work: (item: T, at: number) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = [];
  const left = items.entries();
  const oneByOne = async (): Promise<void> => {
    for (const [at, item] of left) results[at] = await work(item, at);
  };
  await Promise.all([oneByOne(), oneByOne()]);
  return results;
}
