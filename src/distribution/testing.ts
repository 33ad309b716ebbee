import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { onTestFinished } from "vitest";
import type { Caller } from "../core/caller.ts";
import type { Json } from "../core/json.ts";
import { actionName } from "../core/names.ts";
import { createSqlAnchorStore } from "../store/anchors.ts";
import { openSqlite } from "../store/drivers/sqlite.ts";
import { migrate } from "../store/migrations.ts";
import type { AnchorStore } from "./anchors.ts";
import type { Annotations } from "./annotated-record.ts";
import type { Deliver, DeliveryFacts, Destinations } from "./destination-config.ts";
import { createDistributor, type DistributionEvent, type DistributionLimits } from "./distributor.ts";
import { type FieldPathStep, ITEMS } from "./field-path.ts";

const start = new Date("2026-01-02T03:04:05Z");

export const caller: Caller = { actor: "sales", session: "s1", tenant: "t1", user: { id: "u1", tier: "gold" } };
export const about = { callId: "c1", action: actionName("tool", "quote"), caller };

export const record = {
  id: 7,
  email: "ann@example.org",
  owner: { phone: "555-0199" },
  items: [{ price: 12.5, margin: 31 }],
};
export const annotations: Annotations = {
  email: { hidden: ["llm-session"], redacted: ["audit"], label: "E-mail" },
  "owner.phone": { hidden: true },
  "items[].price": { composition: "anchored", label: "Price", temporal: "as of today" },
  "items[].margin": { hidden: ["llm-session", "formatter:*"] },
};

/** A real store, for one test. */
export async function openAnchorStore(): Promise<AnchorStore> {
  const db = await openSqlite(":memory:");
  onTestFinished(() => db.close());
  await migrate(db);
  return createSqlAnchorStore(db, () => start);
}

/** A distributor, and what it tells of failures. */
export function openDistribution(
  anchors: AnchorStore,
  destinations: Destinations,
  limits: Partial<DistributionLimits> = {},
) {
  const events: DistributionEvent[] = [];
  const problems: string[] = [];
  let time = start.getTime();
  const distributor = createDistributor({
    destinations,
    anchors,
    runtime: { now: () => new Date(time), elapsed: () => 0, newId: randomUUID },
    note: (_caller, event) => void events.push(event),
    onProblem: (problem) => void problems.push(problem),
    limits,
  });
  const failures = () => events.map(({ data }) => [data.destination, data.reason]);
  const passTime = (ms: number): void => {
    time += ms;
  };
  return { ...distributor, problems, failures, passTime };
}

/** A destination that can be waited for. */
export function collecting() {
  const views: Json[] = [];
  const told: DeliveryFacts[] = [];
  const waiting: (() => void)[] = [];
  const deliver: Deliver = (view, facts) => {
    views.push(view);
    told.push(facts);
    for (const tell of waiting.splice(0)) tell();
  };
  const reached = async (count: number): Promise<void> => {
    while (views.length < count) await new Promise<void>((resolve) => waiting.push(resolve));
  };
  return { views, told, deliver, reached };
}

export const never = (): Promise<never> => new Promise(() => {});

/** The same question as the tree of rules answers, asked of one path and one place. */
export function leadsTo(path: readonly FieldPathStep[], place: readonly (string | number)[], isList: boolean): boolean {
  const [step, ...steps] = path;
  const [name, ...names] = place;
  if (step === undefined) return name === undefined;
  if (typeof name === "number") {
    return (step === ITEMS && leadsTo(steps, names, isList)) || leadsTo(path, names, isList);
  }
  if (step === ITEMS && (name !== undefined || !isList)) return leadsTo(steps, place, isList);
  return name !== undefined && step === name && leadsTo(steps, names, isList);
}

/** Every place in a value, from the outside in. */
export function* listPlaces(
  value: Json,
  place: readonly (string | number)[] = [],
): Generator<{ readonly place: readonly (string | number)[]; readonly value: Json }> {
  yield { place, value };
  if (typeof value !== "object" || value === null) return;
  const isList = Array.isArray(value);
  for (const [name, part] of Object.entries(value))
    yield* listPlaces(part as Json, [...place, isList ? Number(name) : name]);
}

const NAMES = ["a", "b", "items", "__proto__", "constructor", "toString", "x.y", "0"];

const nameStep = fc.constantFrom(...NAMES);

/** Records in which every text and every number is there once and can be found again. */
export const records: fc.Arbitrary<Json> = fc
  .letrec<{ value: unknown; list: unknown; record: unknown }>((tie) => ({
    value: fc.oneof({ maxDepth: 5 }, fc.constantFrom("text", "number", true, null), tie("record"), tie("list")),
    list: fc.array(tie("value"), { maxLength: 3 }),
    record: fc.array(fc.tuple(nameStep, tie("value")), { maxLength: 4 }).map((entries) => Object.fromEntries(entries)),
  }))
  .record.map((value) => {
    let counter = 0;
    return marked(value);

    function marked(part: unknown): Json {
      if (part === "text") return `<mark ${++counter} "ü">`;
      if (part === "number") return 7_000_000 + ++counter;
      if (Array.isArray(part)) return part.map(marked);
      if (typeof part !== "object" || part === null) return part as Json;
      return Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, marked(inner)]));
    }
  });

/** Paths that lead somewhere in such records, often enough. */
export const paths: fc.Arbitrary<string> = fc
  .array(fc.oneof({ weight: 3, arbitrary: nameStep }, { weight: 1, arbitrary: fc.constant("[]") }), {
    minLength: 1,
    maxLength: 4,
  })
  .map((steps) => steps.map((step, at) => (step === "[]" ? step : written(step, at))).join(""));

function written(name: string, at: number): string {
  if (name.includes(".")) return `[${JSON.stringify(name)}]`;
  return at === 0 ? name : `.${name}`;
}
