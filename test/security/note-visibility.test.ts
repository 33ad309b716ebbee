import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { defineAction } from "../../src/catalog/define-action.ts";
import type { Action } from "../../src/core/action.ts";
import type { CallerOptions, Outcome, QuartermasterOptions } from "../../src/index.ts";
import { closeWorlds, people, type World, world } from "../fixtures/infospace-world.ts";

afterEach(closeWorlds);

const hr: CallerOptions = { actor: "hr", session: "s" };
const elsewhere: CallerOptions = { actor: "hr", session: "else" };
const clerk: CallerOptions = { actor: "clerk", session: "s" };
const salaries = people.map(({ id }) => ({ id, salary: 1_000 + id, remark: "salary of a person" }));

/** As a tool of a server is: its handler uses no notes. */
const farCopy: Action = {
  ...defineAction("far", {
    entry: "copy",
    description: "Answers what it is given.",
    effect: "read",
    input: { type: "object", properties: { any: {} } },
    run: ({ any }) => any,
  }),
  isRemote: true,
};

/** Two actors in one session. The clerk may not see tool__payroll. */
async function office(options: QuartermasterOptions = {}): Promise<World> {
  const clerkTools = [
    "infospace__*",
    "note__*",
    "collection__*",
    "tool__people*",
    "tool__take",
    "tool__copy",
    "tool__publish",
  ];
  const actors = [
    { name: "hr", tools: ["*"] },
    { name: "clerk", tools: clerkTools },
  ];
  const far = { category: "far", capability: "far", list: () => [farCopy] };
  const w = await world({ ...options, policy: { actors }, providers: [far] });
  const common = { scope: "generalist", effect: "read" } as const;
  const none = { type: "object", properties: {} } as const;
  const any = { type: "object", properties: { any: {} } } as const;
  w.qm.register({
    ...common,
    name: "payroll",
    description: "Salaries.",
    inputSchema: none,
    handler: () => salaries,
  });
  w.qm.register({
    ...common,
    name: "copy",
    description: "Answers what it is given.",
    inputSchema: any,
    handler: ({ any: value }) => value,
  });
  w.qm.register({
    ...common,
    name: "publish",
    description: "Answers what it is given when a person has agreed.",
    inputSchema: any,
    requiresApproval: true,
    handler: ({ any: value }) => value,
  });
  w.qm.register({
    ...common,
    name: "bonus",
    description: "Asks the payroll and answers a long text.",
    inputSchema: none,
    handler: async (_args, context) => JSON.stringify((await context.invoke("tool__payroll")).status).repeat(2_000),
  });
  return w;
}

async function storeResult({ call }: World, name: string, args: object = {}, caller = hr): Promise<string> {
  const outcome = await call(name, args, caller);
  if (outcome.status !== "done") throw new Error(`${name}: ${outcome.value}`);
  const handle = outcome.kept?.handle ?? (outcome.data as { readonly handle?: string }).handle;
  if (handle === undefined) throw new Error(`${name} kept nothing: ${outcome.value}`);
  return handle;
}

const serialize = (outcome: Outcome): string =>
  JSON.stringify([outcome.status, outcome.status === "done" ? outcome.data : [outcome.reason, outcome.value]]);

/** Every way in which the clerk can use a handle. */
const uses: Readonly<Record<string, (handle: string) => readonly [name: string, args: object]>> = {
  "its name": (handle) => [handle, {}],
  load: (target) => ["infospace__load", { target }],
  "an earlier version": (target) => ["infospace__load", { target, version: 1 }],
  size: (target) => ["infospace__size", { target }],
  save: (target) => ["infospace__save", { target, name: "mine" }],
  remove: (target) => ["infospace__remove", { target }],
  head: (target) => ["infospace__head", { target }],
  filter: (target) => ["infospace__filter-structured", { target, where: "true" }],
  join: (target) => ["infospace__join", { target: [{ id: 1 }], with: target, on: "id" }],
  union: (target) => ["infospace__union", { target: [1], with: target }],
  flatten: (target) => ["infospace__flatten", { target }],
  map: (target) => ["infospace__map", { target, action: "tool__copy", args: { any: { $item: "" } } }],
  apply: (target) => ["infospace__apply", { action: "infospace__load", args: { target } }],
  $from: (handle) => ["tool__copy", { any: { $from: handle } }],
  "a path under $from": (handle) => ["tool__copy", { any: { $from: handle, path: "[0].salary" } }],
  "create-collection": (handle) => ["infospace__create-collection", { notes: [handle] }],
  "search within": (target) => ["infospace__search-within-collection", { target, query: "salary" }],
};

async function expectHidden(w: World, handle: string): Promise<void> {
  const absent = handle.replace(/\d+$/, "99999");
  for (const [way, use] of Object.entries(uses)) {
    const [hidden, missing] = [await w.call(...use(handle), clerk), await w.call(...use(absent), clerk)];
    const inHidden = serialize(hidden).replaceAll(handle, "HANDLE");
    expect(inHidden, `${way} of ${handle}`).toBe(serialize(missing).replaceAll(absent, "HANDLE"));
    expect(inHidden).not.toContain("payroll");
  }
  for (const name of ["get", "read", "history"] as const) {
    await expect(w.qm.notes[name](handle, name === "read" ? {} : (clerk as never), clerk)).rejects.toMatchObject({
      code: "not_found",
    });
  }
}

/** Every way to derive a note or collection from the payroll's result. */
const derivations: Readonly<Record<string, (w: World, payroll: string) => Promise<string>>> = {
  filter: (w, target) => storeResult(w, "infospace__filter-structured", { target, where: "salary > 1100" }),
  head: (w, target) => storeResult(w, "infospace__head", { target }),
  project: (w, target) => storeResult(w, "infospace__project", { target, fields: ["salary"] }),
  sort: (w, target) => storeResult(w, "infospace__sort", { target, by: "salary" }),
  join: async (w, other) =>
    storeResult(w, "infospace__join", { target: await storeResult(w, "tool__people"), with: other, on: "id" }),
  union: (w, other) => storeResult(w, "infospace__union", { target: [{ id: "x" }], with: other }),
  aggregate: (w, target) => storeResult(w, "infospace__aggregate", { target, sum: ["salary"] }),
  flatten: (w, target) => storeResult(w, "infospace__flatten", { target }),
  "map over it": (w, target) =>
    storeResult(w, "infospace__map", { target, action: "tool__copy", args: { any: { $item: "" } }, limit: 3 }),
  "map with it": (w) => storeResult(w, "infospace__map", { target: [{}], action: "tool__payroll" }),
  apply: (w) => storeResult(w, "infospace__apply", { action: "tool__payroll" }),
  "create-collection of its notes": (w, notes) => storeResult(w, "infospace__create-collection", { notes }),
  "create-note from it": (w, handle) =>
    storeResult(w, "infospace__create-note", { value: { first: { $from: handle, path: "[0]" } } }),
  "a search that collects": async (w, target) => {
    const args = { target, query: "salary", collect: true };
    const { collected } = await w.done("infospace__search-within-collection", args, hr);
    return (collected as { readonly handle: string }).handle;
  },
  "a long result made from it": (w, handle) => storeResult(w, "tool__copy", { any: { $from: handle } }),
  "a long result of a server that got it": (w, handle) => storeResult(w, "far__copy", { any: { $from: handle } }),
  "a result of an action that called it": (w) => storeResult(w, "tool__bonus"),
  "the next version of a name": async (w, handle) => {
    const first = await storeResult(w, "infospace__create-note", { value: "harmless", name: "report" });
    const second = await storeResult(w, "infospace__create-note", {
      value: { $from: handle, path: "[0]" },
      name: "report",
    });
    expect(second).toBe(first);
    return second;
  },
  "the next version of a collection": async (w, handle) => {
    const first = await storeResult(w, "infospace__create-collection", { items: [1], name: "rows" });
    const second = await storeResult(w, "infospace__create-collection", { notes: handle, name: "rows" });
    expect(second).toBe(first);
    return second;
  },
  "added notes": async (w, notes) => {
    const target = await storeResult(w, "infospace__create-collection", { items: [1] });
    await w.done("infospace__add", { target, notes }, hr);
    return target;
  },
  "added values": async (w, handle) => {
    const target = await storeResult(w, "infospace__create-collection", { items: [1] });
    await w.done("infospace__add", { target, items: { $from: handle } }, hr);
    return target;
  },
  "a derivation of a derivation": async (w, target) =>
    storeResult(w, "infospace__pluck", {
      target: await storeResult(w, "infospace__project", { target, fields: ["salary"] }),
      path: "salary",
    }),
  "a saved name": async (w, target) => {
    await w.done("infospace__save", { target, name: "wages", reach: "tenant" }, hr);
    expect(serialize(await w.call("infospace__load", { target: "wages" }, clerk))).toContain(
      "neither a handle nor the name",
    );
    return target;
  },
};

describe("a note from an action that the caller may not see", () => {
  test("behaves like a nonexistent note in every use", async () => {
    const w = await office();
    const handle = await storeResult(w, "tool__payroll");
    const [first] = (await w.done("infospace__load", { target: handle }, hr)).items as { readonly handle: string }[];

    await expectHidden(w, handle);
    await expectHidden(w, first?.handle ?? "");
  });

  test.each(Object.entries(derivations))("hides everything derived from it by %s", async (_how, derive) => {
    const w = await office();
    const handle = await derive(w, await storeResult(w, "tool__payroll"));

    await w.done("infospace__load", { target: handle }, hr);
    await expectHidden(w, handle);
  });

  test("appears in no list and changes no score or count", async () => {
    const [withPayroll, without] = [await office(), await office()];
    const payroll = await storeResult(withPayroll, "tool__payroll");
    await withPayroll.done("infospace__save", { target: payroll, name: "people of the town", reach: "tenant" }, hr);
    for (const derive of [derivations.project, derivations.flatten, derivations.sort])
      await derive?.(withPayroll, payroll);
    // Use up the same handle numbers in both, so that the answers can be compared directly.
    const ids = async (w: World) => ({
      notes: await w.done("infospace__create-note", { value: "last" }, elsewhere),
      collections: await w.done("infospace__create-collection", { items: [] }, elsewhere),
    });
    const number = (handle: unknown) => Number(String(handle).split("__")[1]);
    const last = await ids(withPayroll);
    while (
      number((await without.done("infospace__create-note", { value: 1 }, elsewhere)).handle) < number(last.notes.handle)
    ) {}
    while (
      number((await without.done("infospace__create-collection", { items: [] }, elsewhere)).handle) <
      number(last.collections.handle)
    ) {}

    const collectAnswers = async (w: World) => {
      await storeResult(w, "tool__people", {}, clerk);
      await w.done("infospace__create-note", { value: "a person with a salary", name: "own" }, clerk);
      await w.done("infospace__create-note", { value: "of the town", name: "shared" }, hr);
      const surface = await w.qm.surface(clerk);
      const answers: unknown[] = [];
      for (const query of ["", "salary", "person", "town", "people of the town", "payroll"]) {
        for (const name of ["infospace__search-notes", "infospace__search-collections"]) {
          answers.push(await w.done(name, { query, limit: 20 }, clerk));
        }
      }
      for (const category of [["note"], ["collection"], undefined]) {
        answers.push(await surface.call("list_actions", { limit: 50, ...(category && { category }) }));
      }
      const page = await w.qm.notes.list({ parts: true, limit: 1_000 }, clerk);
      answers.push(page.items.map(({ handle, name, origin }) => [handle, name, origin.action]));
      answers.push((await w.qm.notes.search("salary", {}, clerk)).searched);
      let lines = 0;
      for await (const _ of w.qm.notes.export({}, clerk)) lines++;
      answers.push(lines);
      return JSON.stringify(answers).replaceAll(/20\d\d-[\d:.T-]+Z/g, "TIME");
    };
    const answered = await collectAnswers(withPayroll);

    expect(answered).toBe(await collectAnswers(without));
    expect(answered).toContain("tool__people");
    expect(answered).not.toContain("tool__payroll");
  });

  test("is visible to operators", async () => {
    const w = await office();
    const handle = await storeResult(w, "tool__payroll");

    expect(await w.qm.notes.get(handle)).toMatchObject({ origin: { action: "tool__payroll" } });
    expect((await w.qm.notes.search("salary", { within: handle })).hits).not.toEqual([]);
  });

  test("stays hidden after an export and an import", async () => {
    const [from, to] = [await office(), await office()];
    const payroll = await storeResult(from, "tool__payroll");
    const projected = await derivations.project?.(from, payroll);
    await storeResult(from, "tool__people");
    const lines: string[] = [];
    for await (const line of from.qm.notes.export()) lines.push(line);

    await to.qm.notes.import(lines, {}, hr);

    const own = (await to.qm.notes.list({ kind: "collection" }, hr)).items;
    const theirs = (await to.qm.notes.list({ kind: "collection" }, clerk)).items;
    expect([own.length, theirs.length, projected !== undefined]).toEqual([3, 1, true]);
  });
});

test("an approved call that another process runs hides what it derived from hidden notes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "qm-sources-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const store = join(folder, "store.db");
  const first = await office({ store });
  const payroll = await storeResult(first, "tool__payroll");
  const waiting = await first.call("tool__publish", { any: { $from: payroll } }, hr);
  if (waiting.status !== "waiting") throw new Error(waiting.value);
  await first.qm.close();

  const second = await office({ store });
  const approver = { id: "ann", roles: ["approver"], via: "test" };
  await second.qm.approvals.answer(waiting.approval.id, { decision: "approved" }, approver);
  await second.qm.approvals.run(waiting.approval.id);
  const outcome = await second.qm.approvals.outcome(waiting.approval.id);

  const handle = outcome.status === "done" ? (outcome.kept?.handle ?? "") : outcome.value;
  expect(handle).toMatch(/^collection__/);
  await second.done("infospace__load", { target: handle }, hr);
  await expectHidden(second, handle);
});

describe("a note from an action that is no longer in the catalog", () => {
  test("stays visible only to the actor it was created for", async () => {
    const w = await office();
    const handle = await storeResult(w, "tool__people");
    await w.done("infospace__load", { target: handle }, clerk);

    w.qm.unregister("people");

    await w.done("infospace__load", { target: handle }, hr);
    await expectHidden(w, handle);
  });

  test("is found by search only for callers that may use it", async () => {
    const w = await office();
    await storeResult(w, "tool__people");
    const found = async (caller: CallerOptions) =>
      (await w.done("infospace__search-notes", { query: "Person 7" }, caller)).searched;
    expect([await found(hr), await found(clerk)]).toEqual([200, 200]);

    w.qm.unregister("people");

    expect([await found(hr), await found(clerk)]).toEqual([200, 0]);
  });
});

test("decides on an action once, not for each of its notes", async () => {
  let asked = 0;
  const visibility = {
    visibleTools: <T extends { readonly name: string }>(actions: readonly T[]) => {
      asked += actions.filter(({ name }) => name === "tool__people").length;
      return actions;
    },
  };
  const w = await world({ policy: { visibility } as never });
  await storeResult(w, "tool__people", {}, { session: "s" });
  asked = 0;

  const { items } = await w.qm.notes.list({ parts: true, limit: 300 }, { session: "s" });

  expect(items).toHaveLength(201);
  expect(asked).toBeLessThanOrEqual(4);
});
