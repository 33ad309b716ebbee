import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { createQuartermaster, type Quartermaster } from "../app/quartermaster.ts";
import type { Model, ModelMessage, ModelRequest } from "../core/model.ts";
import type { SurfaceChoice } from "../core/surface-choice.ts";
import { createAiSdkModel } from "../model/ai-sdk-model.ts";
import { createConfiguredModel } from "../model/configured-model.ts";
import { startModelServer } from "./model-server.ts";
import {
  createSimulatedModel,
  type SimulatedModelOptions,
  type SimulatedTask,
  simulatedBehaviors,
} from "./simulated-model.ts";

const subjects = ["invoice", "parcel", "holiday", "meeting", "salary", "contract", "ticket", "customer"];
const verbs = ["create", "cancel", "find", "archive"];
/** One task for each action of the catalog. Its known names are wrong. */
const tasks: readonly SimulatedTask[] = subjects.flatMap((subject) =>
  verbs.map((verb) => ({
    goal: `Please ${verb} the ${subject} with number ${subject.length}7`,
    action: `tool__${verb}_${subject}`,
    args: { number: 7 },
    searches: [`${verb} ${subject}`],
    knownNames: [`${subject}_manager__do`],
    guessedArgs: { id: 7 },
  })),
);

const schemes = {
  flat: { kind: "flat" },
  universal: { kind: "universal" },
  enum: { kind: "universal", selection: "enum" },
  promote: { kind: "universal", selection: "promote" },
  deferred: { kind: "deferred" },
} as const satisfies Record<string, SurfaceChoice>;
type Scheme = keyof typeof schemes;

let qm: Quartermaster;
beforeAll(async () => {
  const actors = Object.entries(schemes).map(([name, surface]) => ({ name, surface, tools: ["*"] }));
  qm = await createQuartermaster({ policy: { actors } });
  for (const subject of subjects)
    for (const verb of verbs)
      qm.register({
        name: `${verb}_${subject}`,
        description: `${verb} one ${subject} by its number.`,
        scope: "generalist",
        effect: "write",
        inputSchema: { type: "object", properties: { number: { type: "integer" } }, required: ["number"] },
        handler: () => "done",
      });
});
afterAll(() => qm.close());

let sessions = 0;

/** A loop around the model, as a host has one. `first`: what the first request has besides messages and tools. */
async function runTask(
  options: Partial<SimulatedModelOptions>,
  { goal, action }: SimulatedTask,
  actor: Scheme,
  first: Partial<ModelRequest> = {},
  model: Model = createAiSdkModel(createSimulatedModel({ seed: 1, ...options, tasks })),
) {
  const session = `s${sessions++}`;
  const surface = await qm.surface({ session, actor });
  const messages: ModelMessage[] = [{ role: "user", text: `${goal}, and be quick.` }];
  const called: string[] = [];
  const failed: string[] = [];
  let text = "";
  for (let step = 0; step < 8; step++) {
    const { system = "", ...rest } = first;
    const request = { system, messages: [...messages], tools: surface.tools, ...(step === 0 ? rest : {}) };
    const { message } = await model.generate(request, new AbortController().signal);
    text = message.text;
    if (message.toolCalls.length === 0) break;
    const results = [];
    for (const { id, name, args } of message.toolCalls) {
      const answer = await surface.call(name, args);
      called.push(name);
      if (!answer.ok) failed.push((answer.data as { code: string }).code);
      results.push({ id, name, text: answer.text });
    }
    messages.push(message, { role: "tool", results });
  }
  const ended = await qm.ledger.read({ session, type: "call.ended" });
  const done = ended.flatMap(({ data }) => {
    const { action: ran, status } = data as { action?: string; status: string };
    return status === "done" ? [ran] : [];
  });
  return { called, failed, text, isSolved: done.length === 1 && done[0] === action, messages };
}

/** How many of the tasks end well, and how many calls fail on the way. */
async function runTasks(options: Partial<SimulatedModelOptions>, scheme: Scheme, first?: Partial<ModelRequest>) {
  const runs = [];
  for (const task of tasks) runs.push(await runTask(options, task, scheme, first));
  return {
    solved: runs.filter(({ isSolved }) => isSolved).length,
    failed: runs.reduce((sum, { failed }) => sum + failed.length, 0),
    runs,
  };
}

const [task] = tasks as readonly [SimulatedTask];

describe("a strong model", () => {
  test.each([
    ["flat", ["tool__create_invoice"]],
    ["universal", ["search_actions", "invoke_action"]],
    ["enum", ["search_actions", "invoke_action"]],
    ["promote", ["search_actions", "tool__create_invoice"]],
    ["deferred", ["tool_search", "tool__create_invoice"]],
  ] as const)("solves a task on the surface %s by what it is shown", async (scheme, calls) => {
    expect(await runTask({}, task, scheme)).toMatchObject({ isSolved: true, called: calls, failed: [] });
  });

  test("cannot call an action that it was not shown", async () => {
    const model = createSimulatedModel({ seed: 1, tasks });
    const tools = [{ name: "tool__find_customer", description: "Find one customer.", inputSchema: { type: "object" } }];
    const request = { messages: [{ role: "user", text: task.goal }], tools } as const;

    const { message } = await createAiSdkModel(model).generate(request, new AbortController().signal);

    expect(message).toMatchObject({ text: "I could not do it.", toolCalls: [] });
  });

  test("says so when it does not know the task", async () => {
    const request = { messages: [{ role: "user", text: "Sing a song." }] } as const;

    const { message } = await createAiSdkModel(createSimulatedModel({ seed: 1, tasks })).generate(
      request,
      new AbortController().signal,
    );

    expect(message.text).toBe("I do not know this task.");
  });
});

test("answers the same request the same way, and other seeds in other ways", async () => {
  const weak = { ...simulatedBehaviors.weak };
  const read = async (seed: number) =>
    (await runTasks({ ...weak, seed }, "universal")).runs.map(({ called }) => called);

  expect(await read(1)).toEqual(await read(1));
  expect(await read(1)).not.toEqual(await read(2));
});

test("does the same when it is asked over HTTP", async () => {
  const options = { seed: 1, ...simulatedBehaviors.weak };
  const server = await startModelServer(createSimulatedModel({ ...options, tasks }));
  onTestFinished(server.close);
  const remote = createConfiguredModel({ provider: "openai-compatible", model: "simulated" }, () => {
    return { baseUrl: server.url };
  });

  for (const [at, each] of tasks.slice(0, 8).entries()) {
    const scheme = (Object.keys(schemes) as Scheme[])[at % 5] ?? "flat";
    const [near, far] = [await runTask(options, each, scheme), await runTask(options, each, scheme, {}, remote)];
    expect({ ...far, messages: [] }).toEqual({ ...near, messages: [] });
  }
});

describe("a model that skips discovery", () => {
  const skips = { skipsDiscovery: 1 };

  test("calls a name of its training first", async () => {
    const { called, failed } = await runTask(skips, task, "universal");

    expect(called[0]).toBe("invoke_action");
    expect(failed[0]).toBe("unknown_action");
  });

  test("searches first when the request demands it", async () => {
    const toolChoice = { tool: "search_actions" };

    expect(await runTask(skips, task, "universal", { toolChoice })).toMatchObject({ isSolved: true, failed: [] });
  });

  test("obeys a rule of its prompt more often when it is there three times", async () => {
    const rule = "The first call MUST be search_actions. ";
    const [none, once, thrice] = [
      await runTasks(skips, "universal"),
      await runTasks(skips, "universal", { system: `Be kind. ${rule}` }),
      await runTasks(skips, "universal", { system: rule.repeat(3) }),
    ];

    expect(none.solved).toBe(0);
    expect(once.solved).toBeGreaterThan(tasks.length * 0.2);
    expect(thrice.solved).toBeGreaterThan(tasks.length * 0.6);
    expect(thrice.solved).toBeGreaterThan(once.solved);
  });
});

describe("a model that invents names", () => {
  const invents = { inventsNames: 1, patience: 2 };

  test("fails where it writes the name, and not where it chooses it", async () => {
    const solved = new Map<Scheme, number>();
    for (const scheme of Object.keys(schemes) as Scheme[]) solved.set(scheme, (await runTasks(invents, scheme)).solved);

    const all = tasks.length;
    expect(solved.get("universal")).toBeLessThan(all);
    expect(solved.get("deferred")).toBeLessThan(all);
    expect([solved.get("enum"), solved.get("promote"), solved.get("flat")]).toEqual([all, all, all]);
  });
});

test("writes arguments as JSON text, which the pipeline reads", async () => {
  const [flat, universal] = [
    await runTask({ doubleEncodes: 1 }, task, "flat"),
    await runTask({ doubleEncodes: 1 }, task, "universal"),
  ];

  const sent = [flat, universal].map(({ messages }) => {
    return messages.flatMap((message) => (message.role === "assistant" ? message.toolCalls : [])).at(-1)?.args;
  });
  expect(sent).toEqual(['{"number":7}', { action_name: "tool__create_invoice", args: '{"number":7}' }]);
  expect([flat, universal]).toMatchObject([{ isSolved: true }, { isSolved: true }]);
});

test("stops early, unless a tool is demanded", async () => {
  const stops = { stopsEarly: 1 };

  expect(await runTask(stops, task, "universal")).toMatchObject({ called: [], text: "I will do that for you." });
  const forced = await runTask(stops, task, "universal", { toolChoice: "required" });
  expect(forced).toMatchObject({ called: ["search_actions"], text: "I will do that for you." });
});

test("answers with respond when a request demands it", async () => {
  const tools = [{ name: "respond", description: "Answer the user.", inputSchema: { type: "object" } }];
  const model = createAiSdkModel(createSimulatedModel({ seed: 1, tasks }));

  const calls = [];
  for (const toolChoice of ["required", { tool: "respond" }] as const) {
    const request: ModelRequest = { messages: [{ role: "user", text: task.goal }], tools, toolChoice };
    const { message } = await model.generate(request, new AbortController().signal);
    calls.push(message.toolCalls[0]);
  }

  const args = { parts: [{ partType: "response", text: "That is all." }] };
  expect(calls).toMatchObject([
    { name: "respond", args },
    { name: "respond", args },
  ]);
});

test("writes guessed arguments for an action without a shown schema, and corrects them by the error", async () => {
  const known = tasks.map((each) => ({ ...each, knownNames: [each.action] }));
  const model = createAiSdkModel(createSimulatedModel({ seed: 1, tasks: known, skipsDiscovery: 1 }));
  const surface = await qm.surface({ session: "guessed", actor: "universal" });
  const messages: ModelMessage[] = [{ role: "user", text: task.goal }];
  const codes: unknown[] = [];
  for (const _ of [1, 2]) {
    const request = { messages: [...messages], tools: surface.tools };
    const { message } = await model.generate(request, new AbortController().signal);
    const [call] = message.toolCalls;
    const answer = await surface.call(call?.name ?? "", call?.args);
    codes.push(answer.ok ? "ok" : (answer.data as { code: string }).code);
    messages.push(message, {
      role: "tool",
      results: [{ id: call?.id ?? "", name: call?.name ?? "", text: answer.text }],
    });
  }

  expect(codes).toEqual(["invalid_arguments", "ok"]);
});
