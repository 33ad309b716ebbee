import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createQuartermaster, type Quartermaster, type QuartermasterOptions } from "../src/index.ts";

const open: Quartermaster[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((qm) => qm.close()));
});

const actors = [
  { name: "reviewer", tools: ["tool__read"] },
  { name: "broken", tools: ["tool__read", "tool__raed", "tool__secret"] },
];

async function createQm(options: QuartermasterOptions = {}): Promise<Quartermaster> {
  const qm = await createQuartermaster({ infospace: { enabled: true }, policy: { actors }, ...options });
  open.push(qm);
  const tool = { description: "Read it.", inputSchema: z.object({}), effect: "read", handler: () => "ok" } as const;
  qm.register({ ...tool, name: "read", scope: "generalist" });
  return qm;
}

type Use = (qm: Quartermaster, caller: { actor: string; session: string }) => unknown;

async function drain(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items);
}

/** Every method that takes a caller, by its name. */
const uses: Readonly<Record<string, Use>> = {
  invoke: async (qm, caller) => {
    const outcome = await qm.invoke("tool__read", {}, { caller });
    if (outcome.status !== "done") throw outcome.status === "waiting" ? outcome : outcome.error;
  },
  list: (qm, caller) => qm.list({}, caller),
  describe: (qm, caller) => qm.describe("tool__read", caller),
  search: (qm, caller) => qm.search({ query: "read" }, caller),
  hints: (qm, caller) => qm.hints("read", caller),
  directory: (qm, caller) => qm.directory(caller),
  promptAids: (qm, caller) => qm.promptAids("read", caller),
  prompt: (qm, caller) => qm.prompt(caller),
  explain: (qm, caller) => qm.explain("tool__read", caller),
  names: (qm, caller) => qm.names(caller),
  categories: (qm, caller) => qm.categories(caller),
  skills: (qm, caller) => qm.skills(caller),
  surface: (qm, caller) => qm.surface(caller),
  "surface, flat": (qm, caller) => qm.surface(caller, "flat"),
  rehearse: (qm, caller) => qm.rehearse([], { caller }),
  note: (qm, caller) => qm.note({ type: "client.connected", data: client }, caller),
  "router.routeEvent": async (qm, caller) => {
    const stop = qm.router.subscribe({}, () => {});
    await qm.router.routeEvent("host", "ping", {}, { caller }).finally(stop);
  },
  "anchors.render": (qm, caller) => qm.anchors.render(caller, "text"),
  "anchors.fill": (qm, caller) => qm.anchors.fill(caller, {}),
  "turns.begin": (qm, caller) => qm.turns.begin(caller),
  "turns.resume": async (qm, caller) => ignoreMissing(qm.turns.resume("token", { caller })),
  "approvals.withdraw": (qm, caller) => ignoreMissing(qm.approvals.withdraw("id", caller)),
  "approvals.outcome": (qm, caller) => ignoreMissing(qm.approvals.outcome("id", { caller })),
  "approvals.look": (qm, caller) => ignoreMissing(qm.approvals.look("id", { caller })),
  "peers.listExposed": (qm, caller) => qm.peers.listExposed(caller),
  callActor: (qm, caller) => ignoreNoModel(qm.callActor(caller.actor, "hello", { caller })),
  "notes.list": (qm, caller) => qm.notes.list({}, caller),
  "notes.get": (qm, caller) => ignoreMissing(qm.notes.get("note__1", caller)),
  "notes.read": (qm, caller) => ignoreMissing(qm.notes.read("note__1", {}, caller)),
  "notes.items": (qm, caller) => ignoreMissing(drain(qm.notes.items("collection__1", {}, caller))),
  "notes.history": (qm, caller) => ignoreMissing(qm.notes.history("note__1", caller)),
  "notes.search": (qm, caller) => qm.notes.search("word", {}, caller),
  "notes.write": (qm, caller) => qm.notes.write("text", {}, caller),
  "notes.writeFile": (qm, caller) => qm.notes.writeFile({ bytes: new Uint8Array(1), mediaType: "image/png" }, caller),
  "notes.collect": (qm, caller) => qm.notes.collect([{ content: 1 }], {}, caller),
  "notes.add": (qm, caller) => ignoreMissing(qm.notes.add("collection__1", [{ content: 1 }], caller)),
  "notes.takeOut": (qm, caller) => ignoreMissing(qm.notes.takeOut("collection__1", ["note__1"], caller)),
  "notes.save": (qm, caller) => ignoreMissing(qm.notes.save("note__1", {}, caller)),
  "notes.remove": (qm, caller) => ignoreMissing(qm.notes.remove("note__1", caller)),
  "notes.usage": (qm, caller) => qm.notes.usage(caller),
  "notes.export": (qm, caller) => drain(qm.notes.export({}, caller)),
  "notes.import": (qm, caller) => ignoreInvalid(qm.notes.import([], {}, caller)),
};

const client = { profile: "default", client: "test", protocol: "1", transport: "stdio" };

const ignore = (code: string) => (work: Promise<unknown>) =>
  work.catch((thrown: { code?: string }) => {
    if (thrown.code !== code) throw thrown;
  });
const ignoreMissing = ignore("not_found");
const ignoreNoModel = ignore("no_model");
const ignoreInvalid = ignore("invalid_arguments");

/** The methods without a caller. Operators use them to repair an actor. */
const withoutCaller = new Set([
  ...["register", "unregister", "inventory", "recordConfig", "watchDecisions", "onChange", "actorProblems"],
  ...[
    "policyWarnings",
    "ruleProblems",
    "usePolicy",
    "replay",
    "close",
    "policyVersion",
    "embeddings",
    "openSkillTrust",
    "resumeActor",
    "sessions",
    "catalog",
    "ledger",
  ],
  ...["approvals.list", "approvals.get", "approvals.answer", "approvals.run", "approvals.onChange"],
  ...["approvals.reveal", "approvals.readFiles", "turns.get", "turns.list", "notes.expire", "methods"],
  ...["peers.list", "peers.card", "peers.openTasks"],
  ...["router.handle", "router.subscribe", "router.useRules", "router.cancel", "router.underWay", "router.dispatch"],
  "router.close",
]);

const call = async (use: Use, qm: Quartermaster, actor: string) => use(qm, { actor, session: "s" });

describe.each(Object.entries(uses))("%s", (_, use) => {
  test("answers unknown_actor with a suggestion for an actor that is not configured", async () => {
    await expect(call(use, await createQm(), "reviewr")).rejects.toMatchObject({
      code: "unknown_actor",
      hint: "Did you mean reviewer?",
    });
  });

  test("answers invalid_config for an actor that lists an unknown action, and works for another actor", async () => {
    const qm = await createQm();

    await expect(call(use, qm, "broken")).rejects.toMatchObject({ code: "invalid_config" });
    await call(use, qm, "reviewer");
  });
});

test("every method of the library is in one of the two lists", async () => {
  const qm = await createQm();
  const groups = ["approvals", "turns", "router", "anchors", "peers"] as const;
  const names = [
    ...Object.keys(qm).filter((name) => name !== "notes" && !groups.some((group) => group === name)),
    ...groups.flatMap((group) => Object.keys(qm[group]).map((name) => `${group}.${name}`)),
    ...Object.keys(qm.notes).map((name) => `notes.${name}`),
  ];

  expect(names.filter((name) => !Object.hasOwn(uses, name) && !withoutCaller.has(name))).toEqual([]);
});

test("the error of a broken actor names no action but those that the actor lists", async () => {
  const qm = await createQm();

  expect(await qm.invoke("tool__read", {}, { caller: { actor: "broken" } })).toMatchObject({
    status: "failed",
    error: {
      code: "invalid_config",
      error:
        'actor broken lists "tool__raed", which does not exist; actor broken lists "tool__secret", which does not exist',
    },
  });
  expect(qm.actorProblems()[0]).toContain("did you mean tool__read?");
  expect(qm.inventory().map(({ name }) => name)).toContain("tool__read");
});

test("an actor works as soon as its last unknown action is registered, and fails when it is removed", async () => {
  const qm = await createQm({ policy: { actors: [{ name: "default", tools: ["tool__later"] }] } });
  expect(() => qm.names()).toThrow(/tool__later/);

  const tool = { description: "Come later.", inputSchema: z.object({}), effect: "pure", handler: () => 1 } as const;
  qm.register({ ...tool, name: "later", scope: "generalist" });
  expect(qm.names()).toEqual(["tool__later"]);

  qm.unregister("later");
  expect(() => qm.names()).toThrow(/tool__later/);
});

test("an actor may list actions of a source whose actions are not known yet", async () => {
  const pending = () => [{ name: "memory", prefix: "mcp__memory__" }];
  const provider = { category: "mcp", capability: "test", list: () => [], pending };
  const tools = ["mcp__memory__read_graph"];
  const qm = await createQm({ providers: [provider], policy: { actors: [{ name: "default", tools }] } });

  expect(qm.names()).toEqual([]);
  expect(qm.actorProblems()).toEqual([]);
});
