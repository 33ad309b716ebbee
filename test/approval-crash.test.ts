import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openSqlite } from "../src/store/drivers/sqlite.ts";
import { type Query, type Row, sql } from "../src/store/sql.ts";
import type { Hook, Look, Said, SaidOutcome, Step, Visit } from "./fixtures/approving-process.ts";

// A call that must be agreed to, and a process that is killed at one point of it. A second process and then a third open
// what it left, put it in order, answer again and call again. Seven points, each with seven courses of events.

const DAY_MS = 86_400_000;
const AGREED = { sum: 5 };
const OTHER = { sum: 6 };

interface Place {
  /** Where the process kills itself. Absent: between two steps. */
  readonly killIn?: Hook;
  /** What the first process does; `answer` stands for what the course of events says. */
  readonly steps: readonly (Step | "answer")[];
  /** What it leaves, but for a call that was denied. */
  readonly leaves: { readonly state: string; readonly begun: boolean; readonly lines: number };
}

const run = ["call", "answer", "run", "die"] as const;
const places = {
  "before the question is stored": {
    killIn: "preview",
    steps: ["call"],
    leaves: { state: "none", begun: false, lines: 0 },
  },
  "while it waits": { steps: ["call", "die"], leaves: { state: "pending", begun: false, lines: 0 } },
  "agreed to, not claimed": {
    steps: ["call", "answer", "die"],
    leaves: { state: "approved", begun: false, lines: 0 },
  },
  "claimed, not begun": {
    killIn: "visibility",
    steps: run,
    leaves: { state: "executing", begun: false, lines: 0 },
  },
  "in the handler": { killIn: "handler", steps: run, leaves: { state: "executing", begun: true, lines: 1 } },
  "after the handler, its outcome not kept": {
    killIn: "delivery",
    steps: run,
    leaves: { state: "executing", begun: true, lines: 1 },
  },
  "its outcome kept, not in the ledger": {
    killIn: "record",
    steps: run,
    leaves: { state: "done", begun: true, lines: 1 },
  },
} as const satisfies Record<string, Place>;

interface Course {
  readonly answer: readonly Step[];
  /** What those are told whose answer comes to a question that waits. */
  readonly heard: readonly string[];
  /** The arguments in the store are others than those agreed to, after the crash. */
  readonly rewritten?: boolean;
  /** The second process has a policy in which the caller may not use the action; the third has the first one's again. */
  readonly revoked?: boolean;
  /** How far the clock is on in the second process, and as far again in the third. */
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

/** What must have become of it in the end. */
interface End {
  readonly state: string;
  /** How often it ran. */
  readonly lines: number;
  /** How often the ledger has the end of the call. */
  readonly ends: number;
  /** What the caller is told, once, by calling again. */
  readonly told: string;
}

const ran: End = { state: "done", lines: 1, ends: 1, told: "done" };
const cutOff: End = { state: "interrupted", lines: 1, ends: 1, told: "interrupted" };
/** Agreed to, and not run, because it would not have been what was agreed to. */
const voided: End = { state: "expired", lines: 0, ends: 1, told: "approval_expired" };
/** These were never gone on with: the ledger has their end as `approval.expired` and `approval.decided`. */
const late: End = { state: "expired", lines: 0, ends: 0, told: "approval_expired" };
const refused: End = { state: "denied", lines: 0, ends: 0, told: "tool_denied" };
/** Nothing was left and nothing could be asked; when the caller has its rights again, it asks for the first time. */
const asksAnew: End = { state: "pending", lines: 0, ends: 0, told: "waiting" };

// Not to be reached are four of them: what is denied is never claimed, so the process that wants to run it finds nothing
// and is killed when it has looked. Where no question was stored, there is none whose arguments could be changed or that
// could expire: there it is the one that the second process puts, and the third that finds it so.
const expected: Readonly<Record<PlaceName, readonly [End, End, End, End, End, End, End]>> = {
  // nothing else, double approval, changed arguments, revoked actor, wrong role, expired, denied
  "before the question is stored": [ran, ran, voided, asksAnew, ran, late, refused],
  "while it waits": [ran, ran, voided, voided, ran, late, refused],
  "agreed to, not claimed": [ran, ran, voided, voided, ran, late, refused],
  "claimed, not begun": [ran, ran, voided, voided, ran, late, refused],
  "in the handler": [cutOff, cutOff, cutOff, cutOff, cutOff, cutOff, refused],
  "after the handler, its outcome not kept": [cutOff, cutOff, cutOff, cutOff, cutOff, cutOff, refused],
  "its outcome kept, not in the ledger": [ran, ran, ran, ran, ran, ran, refused],
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

/** What was seen of a case. */
interface Seen {
  /** What the first process left, as it lay in the files. */
  readonly left: { readonly state: string; readonly begun: boolean; readonly lines: number; readonly ends: number };
  readonly first: Process;
  readonly second: Process;
  readonly third: Process;
  /** The approval in question. */
  readonly id: string | undefined;
  /** The arguments of every run. */
  readonly lines: readonly unknown[];
  /** The calls that the ledger ends more than once. */
  readonly endedTwice: readonly Row[];
}

interface Process {
  readonly signal: string | null;
  readonly status: number | null;
  readonly said: readonly Said[];
}

const folder = mkdtempSync(join(tmpdir(), "qm-approval-crash-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const cases: readonly Case[] = (Object.keys(places) as PlaceName[]).flatMap((at, row) =>
  (Object.keys(courses) as CourseName[]).map((name, column) => ({
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

beforeAll(async () => {
  const firsts = await inPairs(cases, (each) => processes([firstVisit(each)]));
  const lefts = await inPairs(cases, async (each, at) => {
    const left = await leftBy(each);
    if (each.course.rewritten) await rewrite(each);
    return { ...left, id: idIn(firsts[at]?.get(each.store)) };
  });
  const seconds = await visited((each, at) => secondVisit(each, lefts[at]?.id));
  const ids = cases.map(({ store }, at) => lefts[at]?.id ?? idIn(seconds.get(store)));
  for (const each of cases) if (isAskedLater(each) && each.course.rewritten) await rewrite(each);
  const thirds = await visited((each, at) => thirdVisit(each, ids[at]));
  for (const [at, each] of cases.entries()) {
    const [first, second, third] = [firsts[at], seconds, thirds].map((said) => said?.get(each.store));
    const left = lefts[at];
    if (!first || !second || !third || !left) expect.fail(`${each.at}, ${each.with}: a process said nothing`);
    const { id: _, ...files } = left;
    const endedTwice = await inStore(
      each,
      sql`select call_id from events where type = 'call.ended' group by call_id having count(*) > 1`,
    );
    seen.set(each, { left: files, first, second, third, id: ids[at], lines: linesOf(each), endedTwice });
  }
}, 300_000);

describe.each(Object.keys(places) as PlaceName[])("killed %s", (at) => {
  test.each(cases.filter((each) => each.at === at))("$with", (each) => {
    const { place, course, end } = each;
    const { left, first, second, third, id, lines, endedTwice } =
      seen.get(each) ?? expect.fail("it did not take place");
    const isDenied = course.answer[0] === "deny" && place.steps.includes("answer");

    expect(first.signal).toBe("SIGKILL");
    expect([second.status, third.status]).toEqual([0, 0]);
    expect(left).toEqual({ ...(isDenied ? { state: "denied", begun: false, lines: 0 } : place.leaves), ends: 0 });
    // Nobody but who was denied came back from running it.
    expect(runsIn(first)).toEqual(isDenied && place.steps.includes("run") ? [0] : []);

    expect(lines).toEqual(Array.from({ length: end.lines }, () => AGREED));
    expect(lookIn(third)).toEqual({ state: end.state, ends: end.ends, broken: [] });
    expect(lookIn(second).broken).toEqual([]);
    expect(endedTwice).toEqual([]);

    // One answer at most counts, whoever comes later and however often.
    const answers = [first, second, third].map(answersIn);
    const askedIn = answers.findIndex((given) => given.length > 0);
    const isHeard = end !== asksAnew && end !== late;
    if (isHeard || place.steps.includes("answer")) expect(answers[askedIn]?.toSorted()).toEqual(course.heard);
    const counted = answers.flat().filter((answer) => answer === "counted");
    expect(counted).toHaveLength(isHeard || place.steps.includes("answer") ? 1 : 0);
    expect(answers.at(-1)).toEqual(
      end === asksAnew ? ["not_found"] : [end.state === "expired" ? "approval_expired" : "conflict"],
    );

    // Once it is told how the call ended; after that, the same call is another question.
    const calls = [...callsIn(second), ...callsIn(third)].filter(
      ({ approval }) => approval === undefined || approval !== id || end === asksAnew,
    );
    const hidden = course.revoked ? ["unknown_action"] : [];
    expect(calls.map((call) => call.as)).toEqual([
      ...hidden,
      end.told,
      ...Array(calls.length - hidden.length - 1).fill("waiting"),
    ]);
    const told = calls[hidden.length];
    if (end.told === "done") expect(told?.data).toEqual({ paid: AGREED.sum });
    if (end.told === "interrupted") expect(told?.hint).toMatch(/look before/);
    expect(calls.at(-1)?.as).toBe("waiting");

    // Other arguments are another question, too.
    for (const other of callsIn(third, "call with other arguments")) {
      expect(other.as).toBe("waiting");
      expect([id, ...calls.map(({ approval }) => approval)]).not.toContain(other.approval);
    }
  });
});

test("nothing is lost, run twice, run after it was denied, or run with other arguments", () => {
  const all = cases.map((each) => ({ ...each, ...(seen.get(each) ?? expect.fail("it did not take place")) }));
  const isTold = ({ end, second, third }: (typeof all)[number]) =>
    [...callsIn(second), ...callsIn(third)].some((call) => call.as === end.told);
  const count = (is: (each: (typeof all)[number]) => boolean) => all.filter(is).length;
  const totals = {
    cases: all.length,
    ran: count(({ lines }) => lines.length > 0),
    lost: count((each) => each.lines.length < each.end.lines || !isTold(each)),
    "run twice": count(({ lines }) => lines.length > 1),
    "run after denial": count((each) => each.with === "denied" && each.lines.length > 0),
    "run with other arguments": count(({ lines }) =>
      lines.some((line) => JSON.stringify(line) !== JSON.stringify(AGREED)),
    ),
  };

  process.stdout.write(
    `approvals and crashes: ${Object.entries(totals)
      .map(([what, number]) => `${what} ${number}`)
      .join(", ")}\n`,
  );
  expect(totals).toEqual({
    cases: 49,
    ran: 30,
    lost: 0,
    "run twice": 0,
    "run after denial": 0,
    "run with other arguments": 0,
  });
});

function firstVisit({ store, effects, place, course }: Case): Visit {
  const steps = place.steps.flatMap((step) => (step === "answer" ? course.answer : [step]));
  return { store, effects, steps, killIn: place.killIn };
}

/** Whether the question of the case is one that the second process puts. */
function isAskedLater({ place }: Case): boolean {
  return place.leaves.state === "none";
}

function secondVisit(each: Case, id: string | undefined): Visit {
  const { store, effects, course } = each;
  const { answer, revoked = false, aheadMs = 0 } = course;
  const whole: readonly Step[] = ["run", ...answer, "run", "call", "look"];
  const visit = { store, effects, id, revoked, aheadMs };
  if (!isAskedLater(each)) return { ...visit, steps: whole };
  if (course.rewritten) return { ...visit, steps: ["call", ...answer, "look"] };
  if (revoked || aheadMs > 0) return { ...visit, steps: ["call", "run", "look"] };
  return { ...visit, steps: ["call", ...whole] };
}

function thirdVisit({ store, effects, course }: Case, id: string | undefined): Visit {
  const other: readonly Step[] = course.rewritten ? ["call with other arguments"] : [];
  const steps: readonly Step[] = ["run", "approve", "run", "call", "call", ...other, "look"];
  return { store, effects, id, aheadMs: 2 * (course.aheadMs ?? 0), steps };
}

/** One process for each place, which visits one store after another. */
async function visited(visit: (each: Case, at: number) => Visit): Promise<ReadonlyMap<string, Process>> {
  const visits = cases.map(visit);
  const groups = (Object.keys(places) as PlaceName[]).map((at) => visits.filter((_, index) => cases[index]?.at === at));
  return new Map((await inPairs(groups, processes)).flatMap((said) => [...said]));
}

/** What a process said about each store. */
async function processes(visits: readonly Visit[]): Promise<ReadonlyMap<string, Process>> {
  const script = fileURLToPath(new URL("fixtures/approving-process.ts", import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", script, JSON.stringify(visits)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  const [status, signal] = (await once(child, "close")) as [number | null, string | null];
  const lines = text.split("\n").filter((line) => line !== "");
  const all = lines.map((line) => JSON.parse(line) as Said & { readonly store: string });
  return new Map(
    visits.map(({ store }) => [store, { status, signal, said: all.filter((each) => each.store === store) }]),
  );
}

/** As the files have it, before anything but SQLite looks at them. */
async function leftBy(each: Case): Promise<Seen["left"]> {
  const [row] = await inStore(each, sql`select state, begun_at from approvals`);
  const [ended] = await inStore(
    each,
    sql`select count(*) as n from events where type = 'call.ended' and call_id in (select call_id from approvals)`,
  );
  const begun = typeof row?.begun_at === "string";
  return { state: String(row?.state ?? "none"), begun, lines: linesOf(each).length, ends: Number(ended?.n) };
}

async function rewrite(each: Case): Promise<void> {
  await inStore(each, sql`update approvals set args = ${JSON.stringify(OTHER)}`);
}

async function inStore({ store }: Case, query: Query): Promise<readonly Row[]> {
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

function idIn(from: Process | undefined): string | undefined {
  return from === undefined ? undefined : callsIn(from).find(({ approval }) => approval !== undefined)?.approval;
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
  const look = said.findLast((each) => each.step === "look") ?? expect.fail("it did not look");
  return look.said as Look;
}

/** Two at a time. */
async function inPairs<T, R>(items: readonly T[], work: (item: T, at: number) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) results[at] = await work(items[at] as T, at);
  };
  await Promise.all([worker(), worker()]);
  return results;
}
