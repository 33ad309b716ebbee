import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import {
  createQuartermaster,
  defineAction,
  type Quartermaster,
  type QuartermasterOptions,
  type Surface,
} from "../../index.ts";
import { addCategoryChoice } from "./browse-actions.ts";
import { universalTools } from "./universal-surface.ts";

const open: Quartermaster[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((qm) => qm.close()));
});

const actions = [
  ...["delete", "list", "read", "write", "stat.all"],
  ...Array.from({ length: 140 }, (_, at) => `part${String(at).padStart(3, "0")}`),
].map((entry) =>
  defineAction("doc", {
    entry,
    description: `Does the ${entry}.`,
    effect: "read",
    input: z.object({ path: z.string().optional() }),
    run: ({ path }) => (path === "missing" ? Promise.reject(new Error("no such path")) : entry),
  }),
);

async function counter(
  surface: QuartermasterOptions["surface"],
  options: QuartermasterOptions = {},
): Promise<Quartermaster> {
  const providers = [{ category: "doc", capability: "documents", list: () => actions }];
  const qm = await createQuartermaster({ providers, surface: surface ?? {}, ...options });
  open.push(qm);
  return qm;
}

const wrapperNames = universalTools.map(({ name }) => name);
const wrappers = universalTools.map((tool) => addCategoryChoice(tool, ["doc"]));
const namesOf = ({ tools }: Surface) => tools.map(({ name }) => name);
const choiceOf = ({ tools }: Surface) => {
  const schema = tools.find(({ name }) => name === "invoke_action")?.inputSchema as {
    properties: { action_name: { type: string; enum?: string[] } };
  };
  return schema.properties.action_name.enum;
};
const caller = { session: "s1" };

async function inFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "qm-shortcuts-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return join(folder, "store.db");
}

describe("without shortcuts", () => {
  test.each([{}, { selection: "none" }, { hotListN: 0, hotListSeed: ["doc__read"] }] as const)(
    "the tools are the same frozen few: %j",
    async (choice) => {
      const surface = await (await counter(choice)).surface(caller);
      const before = surface.tools;
      await surface.call("list_actions", {});

      expect(surface.tools).toBe(before);
      expect(namesOf(surface)).toEqual(wrapperNames);
    },
  );
});

describe("a choice of names", () => {
  test("has the listed, found and described names in that order, and is empty at first", async () => {
    const surface = await (await counter({ selection: "enum" })).surface(caller);
    expect(surface.tools).toEqual(wrappers);

    await surface.call("describe_action", { action_name: "doc.write" });
    await surface.call("search_actions", { query: "doc__list", category: ["doc"], limit: 1 });
    await surface.call("list_actions", { filter: "delete" });
    await surface.call("describe_action", { action_name: "doc__unknown" });
    await surface.call("invoke_action", { action_name: "doc__read" });

    expect(choiceOf(surface)).toEqual(["doc__write", "doc__list", "doc__delete"]);
    expect(namesOf(surface)).toEqual(wrapperNames);
  });

  test("stays byte-stable until there is a new name", async () => {
    const surface = await (await counter({ selection: "enum" })).surface(caller);
    await surface.call("list_actions", { filter: "delete" });
    const before = JSON.stringify(surface.tools);

    await surface.call("describe_action", { action_name: "doc__delete" });

    expect(JSON.stringify(surface.tools)).toBe(before);
  });

  test("does not restrict other names", async () => {
    const surface = await (await counter({ selection: "enum" })).surface(caller);
    await surface.call("list_actions", { filter: "delete" });

    expect(await surface.call("invoke_action", { action_name: "doc__read" })).toMatchObject({ ok: true, data: "read" });
  });

  test("keeps the latest issued names at the limit", async () => {
    const surface = await (await counter({ selection: "enum" })).surface(caller);
    for (const offset of [0, 50, 100]) await surface.call("list_actions", { limit: 50, offset });
    await surface.call("describe_action", { action_name: "doc__delete" });

    const choice = choiceOf(surface) ?? [];

    expect(choice).toHaveLength(128);
    expect(choice[0]).toBe("doc__delete");
    expect(choice).not.toContain("doc__list");
    expect(choice).toContain("doc__write");
  });

  test("drops hidden names at once", async () => {
    const qm = await counter({ selection: "enum" });
    const surface = await qm.surface(caller);
    await surface.call("list_actions", { filter: "te" });
    expect(choiceOf(surface)).toEqual(["doc__delete", "doc__write"]);

    qm.usePolicy({ tools: { denied: ["doc__write"] } });
    expect(choiceOf(surface)).toEqual(["doc__delete"]);
    qm.usePolicy({ actors: [{ name: "other", tools: ["*"] }] });
    expect(surface.tools).toEqual(universalTools);
  });

  test("belongs to the session, across restarts and turns", async () => {
    const store = await inFolder();
    const first = await counter({ selection: "enum" }, { store });
    await (await first.surface({ ...caller, turn: "1" })).call("list_actions", { filter: "te" });
    await first.close();

    const second = await counter({ selection: "enum" }, { store });
    expect(choiceOf(await second.surface({ ...caller, turn: "2" }))).toEqual(["doc__delete", "doc__write"]);
    for (const other of [{ session: "s2" }, { ...caller, tenant: "acme" }, {}])
      expect(choiceOf(await second.surface(other))).toBeUndefined();
  });

  test("belongs to the surface for a caller without a session", async () => {
    const qm = await counter({ selection: "enum" });
    const surface = await qm.surface();
    await surface.call("list_actions", { filter: "te" });

    expect(choiceOf(surface)).toHaveLength(2);
    expect(choiceOf(await qm.surface())).toBeUndefined();
  });
});

describe("promotion", () => {
  test("adds issued actions as tools behind the wrappers, in order", async () => {
    const surface = await (await counter({ selection: "promote" })).surface(caller);
    expect(surface.tools).toEqual(wrappers);

    await surface.call("describe_action", { action_name: "doc__stat.all" });
    const before = JSON.stringify(surface.tools).slice(0, -1);
    await surface.call("list_actions", { filter: "delete" });

    expect(namesOf(surface)).toEqual([...wrapperNames, expect.stringMatching(/^doc__stat_all-/), "doc__delete"]);
    expect(JSON.stringify(surface.tools).startsWith(before)).toBe(true);
    expect(choiceOf(surface)).toBeUndefined();
    expect(await surface.call(namesOf(surface)[4] ?? "", {})).toMatchObject({ ok: true, data: "stat.all" });
  });

  test("stops at the limit, and drops hidden actions", async () => {
    const qm = await counter({ selection: "promote" });
    const surface = await qm.surface(caller);
    await surface.call("list_actions", { limit: 40 });
    expect(namesOf(surface)).toHaveLength(wrapperNames.length + 32);

    qm.usePolicy({ tools: { allowed: ["doc__part035"] } });

    expect(namesOf(surface)).toEqual([...wrapperNames, "doc__part035"]);
  });
});

describe("the hot list", () => {
  const clock = () => {
    let at = new Date("2026-01-01T00:00:00Z").getTime();
    let id = 0;
    const runtime = { now: () => new Date(at), elapsed: () => 0, newId: () => `id-${id++}` };
    const pass = (days: number): void => {
      at += days * 86_400_000;
    };
    return { runtime, pass };
  };
  const use = async (qm: Quartermaster, names: readonly string[], who: object = caller) => {
    const surface = await qm.surface(who);
    for (const action_name of names) await surface.call("invoke_action", { action_name, args: {} });
  };
  const hot = async (qm: Quartermaster, who: object = caller) =>
    namesOf(await qm.surface(who)).slice(wrapperNames.length);

  test("shows the most used actions with their schemas, and the seed until then", async () => {
    const qm = await counter({ hotListN: 2, hotListSeed: ["doc__write", "doc__read"] });
    expect(await hot(qm)).toEqual(["doc__read", "doc__write"]);

    await use(qm, ["doc__list"]);
    expect(await hot(qm)).toEqual(["doc__list", "doc__write"]);
    await use(qm, ["doc__delete"]);

    const surface = await qm.surface(caller);
    expect(namesOf(surface).slice(wrapperNames.length)).toEqual(["doc__delete", "doc__list"]);
    expect(surface.tools.at(-1)?.inputSchema).toBe(qm.describe("doc__list").input_schema);
    expect(surface.tools.slice(0, wrapperNames.length)).toEqual(wrappers);
  });

  test("stays the same for a surface, except for hidden actions", async () => {
    const qm = await counter({ hotListN: 1, hotListSeed: ["doc__read"] });
    const surface = await qm.surface(caller);
    await use(qm, ["doc__list", "doc__list"]);
    await surface.call("doc__list", {});
    expect(namesOf(surface).slice(wrapperNames.length)).toEqual(["doc__read"]);

    qm.usePolicy({ tools: { denied: ["doc__read"] } });

    expect(namesOf(surface)).toEqual(wrapperNames);
    expect(await hot(qm)).toEqual(["doc__list"]);
  });

  test("counts only successful calls, by the name of the action that ran", async () => {
    const qm = await counter({ hotListN: 1 });
    const surface = await qm.surface(caller);
    for (let time = 0; time < 3; time++) await surface.call("doc__read", { path: "missing" });
    await surface.call("doc.write", {});

    expect(await hot(qm)).toEqual(["doc__write"]);
  });

  test("halves weights every week", async () => {
    const { runtime, pass } = clock();
    const qm = await counter({ hotListN: 1 }, { runtime });
    await use(qm, ["doc__read", "doc__read", "doc__read"]);
    pass(7);
    await use(qm, ["doc__list"]);
    expect(await hot(qm)).toEqual(["doc__read"]);
    pass(7);
    await use(qm, ["doc__list"]);

    expect(await hot(qm)).toEqual(["doc__list"]);
  });

  test("belongs to an actor within a tenant, and survives a restart", async () => {
    const store = await inFolder();
    const policy = { actors: ["default", "other"].map((name) => ({ name, tools: ["*"] })) };
    const first = await counter({ hotListN: 1 }, { store, policy });
    await use(first, ["doc__read"], { session: "s1", tenant: "acme" });
    await first.close();

    const second = await counter({ hotListN: 1 }, { store, policy });

    expect(await hot(second, { session: "s2", tenant: "acme" })).toEqual(["doc__read"]);
    expect(await hot(second, { session: "s1" })).toEqual([]);
    expect(await hot(second, { session: "s1", tenant: "acme", actor: "other" })).toEqual([]);
  });

  test("does not repeat promoted actions", async () => {
    const qm = await counter({ hotListN: 1, hotListSeed: ["doc__write"], selection: "promote" });
    const surface = await qm.surface(caller);
    await surface.call("list_actions", { filter: "te" });

    expect(namesOf(surface)).toEqual([...wrapperNames, "doc__write", "doc__delete"]);
  });
});
