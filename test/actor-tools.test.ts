import { expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import {
  createQuartermaster,
  type ModelRequest,
  type PolicyOptions,
  type Quartermaster,
  type QuartermasterOptions,
} from "../src/index.ts";
import { type ActorScript, createActorModel, respondWith } from "./fixtures/scripted-actor.ts";
import { readLastResults } from "./fixtures/scripted-method.ts";

type Actors = NonNullable<PolicyOptions["actors"]>;

async function open(script: ActorScript, actors: Actors, options: Partial<QuartermasterOptions> = {}) {
  const model = createActorModel(script);
  const qm = await createQuartermaster({ models: { default: model }, policy: { actors }, ...options });
  onTestFinished(() => qm.close());
  const tool = (name: string, more: object = { scope: "generalist" }) =>
    qm.register({
      name,
      description: `Read a ${name}.`,
      inputSchema: z.object({ id: z.string() }),
      effect: "read",
      scope: "generalist",
      handler: ({ id }) => `${name} ${id}`,
      ...more,
    } as Parameters<Quartermaster["register"]>[0]);
  for (const name of ["task_get", "missive_list", "person_lookup"]) tool(name);
  tool("email_search", { scope: "specialist", justification: "Only the researcher reads this mailbox." });
  return { qm, model };
}

const listNames = ({ tools = [] }: ModelRequest) => tools.map(({ name }) => name);
const flat = { surface: { kind: "flat" } } as const;

test("an actor's model gets the listed tools with their schemas, and respond", async () => {
  const { qm, model } = await open({ hello: ["Hello."] }, [
    { name: "triage", tools: ["task_get", "person_lookup"], ...flat },
    { name: "researcher", tools: ["email_search"], ...flat },
    { name: "idle", tools: [], ...flat },
  ]);

  for (const actor of ["triage", "researcher", "idle"]) await qm.callActor(actor, "hello");

  expect(model.requests.map(listNames)).toEqual([
    ["tool__person_lookup", "tool__task_get", "respond"],
    ["tool__email_search", "respond"],
    ["respond"],
  ]);
  const [triage] = model.requests;
  expect(triage?.tools?.[1]).toMatchObject({
    description: "Read a task_get.",
    inputSchema: qm.describe("tool__task_get", { actor: "triage" }).input_schema,
  });
  expect(triage?.tools?.at(-1)?.inputSchema).toMatchObject({ required: expect.arrayContaining(["parts"]) });
});

test("an actor that lists an unknown tool is not called", async () => {
  const actors = [
    { name: "triage", tools: ["task_get", "task_gte"], ...flat },
    { name: "other", tools: ["task_get"], ...flat },
  ];
  const { qm, model } = await open({ hello: ["Hello."] }, actors);

  await expect(qm.callActor("triage", "hello")).rejects.toMatchObject({
    code: "invalid_config",
    message: expect.stringContaining('actor triage lists "task_gte", which does not exist'),
  });
  expect(model.requests).toEqual([]);
  expect(await qm.callActor("other", "hello")).toMatchObject({ turnState: "complete" });
});

test("respond is no call of an action: it is neither routed nor recorded as one", async () => {
  const { qm } = await open({ get: [[["tool__task_get", { id: "7" }]], [respondWith("Got it.")]] }, [
    { name: "triage", tools: ["task_get"], ...flat },
  ]);
  const heard: string[] = [];
  qm.router.subscribe({}, ({ type }) => heard.push(type));

  const envelope = await qm.callActor("triage", "get", { caller: { session: "s" } });

  expect(envelope).toMatchObject({ turnState: "complete", parts: [{ text: "Got it." }], calls: 1 });
  await vi.waitFor(() => expect(heard).toEqual(["tool_call:tool__task_get", "tool_result:tool__task_get"]), 10_000);
  const received = await qm.ledger.read({ session: "s", type: "call.received" });
  expect(received.map(({ data }) => data)).toMatchObject([{ asked: "tool__task_get" }]);
  expect(qm.inventory().map(({ name }) => String(name))).not.toContain("tool__respond");
});

test("arguments of an actor's model are checked before the tool runs", async () => {
  const { qm, model } = await open({ get: [[["tool__task_get", { key: [7] }]], [respondWith("Failed.")]] }, [
    { name: "triage", tools: ["task_get"], ...flat },
  ]);

  expect(await qm.callActor("triage", "get")).toMatchObject({ turnState: "complete" });

  expect(readLastResults(model.requests[1])).toEqual([expect.stringMatching(/invalid_arguments.*"input_schema"/)]);
});

test("an actor on the deferred surface searches, calls a tool that becomes visible, and answers", async () => {
  const { qm, model } = await open(
    {
      demo: [
        [["tool_search", { query: "read a task", limit: 3 }]],
        [["tool__task_get", { id: "7" }]],
        [respondWith("done")],
      ],
    },
    [{ name: "planner", tools: ["*"], surface: { kind: "deferred", activationScope: "run" } }],
  );

  const envelope = await qm.callActor("planner", "demo", { caller: { session: "demo" } });

  expect(envelope).toMatchObject({ turnState: "complete", parts: [{ text: "done" }], steps: 3 });
  expect(readLastResults(model.requests[1])).toEqual([expect.stringContaining("tool__task_get(id: string)")]);
  expect(model.requests.map(listNames)).toEqual([
    ["tool_get", "tool_search", "respond"],
    ["tool_get", "tool_search", "respond"],
    ["tool_get", "tool_search", "tool__task_get", "respond"],
  ]);
  const [activated] = await qm.ledger.read({ session: "demo", type: "action.activated" });
  expect(activated?.data).toMatchObject({ action: "tool__task_get", scope: "run" });
});

test("the prompt of an actor has its categories and instructions, and a weak model's first request demands discovery", async () => {
  const script = { get: [[["list_actions", { category: ["tool"] }]], [respondWith("Nothing to do.")]] } as const;
  const { qm, model } = await open(script, [
    { name: "weak", tools: ["*"], tier: "light", instructions: "You sort the mail." },
    { name: "strong", tools: ["*"], tier: "strong" },
  ]);

  for (const actor of ["weak", "strong"]) expect(await qm.callActor(actor, "get")).toMatchObject({ steps: 2 });

  const [first, second, strong] = model.requests;
  expect(first).toMatchObject({ toolChoice: { tool: "list_actions" } });
  expect(first?.system).toMatch(/## Action categories.*\n- tool.*You sort the mail\./s);
  expect(first?.system?.match(/first tool call MUST be list_actions/g)).toHaveLength(3);
  expect(second?.toolChoice ?? "auto").toBe("auto");
  expect(strong?.toolChoice ?? "auto").toBe("auto");
  expect(strong?.system).toContain("## Action categories");
  expect(strong?.system).not.toContain("MUST");
});
