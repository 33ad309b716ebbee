import {
  type Action,
  createQuartermaster,
  fileProvider,
  type ModelRequest,
  type Quartermaster,
} from "../../src/index.ts";
import { createSimulatedModel, simulatedBehaviors, type TestModel } from "../../src/testing/exports.ts";
import type { BenchTask } from "./tasks.ts";

export const schemes = {
  flat: { kind: "flat" },
  universal: { kind: "universal" },
  "universal+enum": { kind: "universal", selection: "enum" },
  "universal+promote": { kind: "universal", selection: "promote" },
  deferred: { kind: "deferred" },
} as const;
export type Scheme = keyof typeof schemes;
export type ModelName = keyof typeof simulatedBehaviors;
export const modelNames = Object.keys(simulatedBehaviors) as ModelName[];

export interface Cell {
  readonly scheme: Scheme;
  readonly model: ModelName;
  /** `light`: the actor's prompt has mandates, and its first step must be a search. */
  readonly tier: "strong" | "light";
}

/** How one task ended. */
export interface TaskRun {
  readonly isSolved: boolean;
  /** Requests to the model. */
  readonly steps: number;
  /** Everything that the model read in this turn: prompts, tools and results of all requests. */
  readonly tokens: number;
  /** Calls that failed, and calls of an action that does not solve the task. */
  readonly wrongCalls: number;
}

export interface CellRuns extends Cell {
  readonly runs: readonly TaskRun[];
}

interface BenchWorld {
  readonly actions: readonly Action[];
  readonly tasks: readonly BenchTask[];
  /** The folder of the file actions. */
  readonly root: string;
  readonly seed: number;
  readonly countTokens: (text: string) => number;
}

const toActorName = ({ scheme, model, tier }: Cell): string => `${scheme.replace("+", "-")}.${model}.${tier}`;

/** Runs all tasks in each cell, each task as a turn of an actor in a session of its own. */
export async function runCells(
  { actions, tasks, root, seed, countTokens }: BenchWorld,
  cells: readonly Cell[],
  onCell: (done: CellRuns) => void = () => {},
): Promise<readonly CellRuns[]> {
  const models = new Map(
    modelNames.map((name) => [name, createSimulatedModel({ seed, tasks, ...simulatedBehaviors[name] })]),
  );
  const quartermaster = await createQuartermaster({
    providers: [
      fileProvider({ root }),
      { category: "mcp", capability: "Use the tools of connected services.", list: () => actions },
    ],
    models: Object.fromEntries(models),
    policy: {
      actors: cells.map((cell) => {
        const { scheme, model, tier } = cell;
        return { name: toActorName(cell), tools: ["*"], surface: schemes[scheme], model, tier, maxSteps: 10 };
      }),
    },
  });
  const countRead = createReadCounter(countTokens);
  const results: CellRuns[] = [];
  try {
    for (const cell of cells) {
      const model = models.get(cell.model) as TestModel;
      const runs: TaskRun[] = [];
      for (const task of tasks) runs.push(await runTask(quartermaster, cell, task, model, countRead));
      const done = { ...cell, runs };
      results.push(done);
      onCell(done);
    }
  } finally {
    await quartermaster.close();
  }
  return results;
}

async function runTask(
  quartermaster: Quartermaster,
  cell: Cell,
  task: BenchTask,
  model: TestModel,
  countRead: (request: ModelRequest) => number,
): Promise<TaskRun> {
  task.prepare?.();
  const earlier = model.requests.length;
  const actor = toActorName(cell);
  const session = `${actor} ${task.goal}`.slice(0, 200);
  let failed = 0;
  const { steps } = await quartermaster.callActor(actor, task.goal, {
    caller: { session },
    onEvent: (event) => {
      if (event.type === "call-ended" && !event.ok) failed++;
    },
  });
  const ended = await quartermaster.ledger.read({ session, type: "call.ended" });
  const done = ended.flatMap(({ data }) => {
    const { action, status } = data as { readonly action?: string; readonly status: string };
    return status === "done" && action !== undefined ? [action] : [];
  });
  const others = done.filter((action) => action !== task.action).length;
  return {
    isSolved: done.includes(task.action),
    steps,
    tokens: model.requests.slice(earlier).reduce((sum, request) => sum + countRead(request), 0),
    wrongCalls: failed + others,
  };
}

/** Tools and the beginning of the prompt are the same in most requests, so their tokens are counted once. */
function createReadCounter(countTokens: (text: string) => number): (request: ModelRequest) => number {
  const counted = new Map<string, number>();
  const count = (text: string): number => {
    let tokens = counted.get(text);
    if (tokens === undefined) {
      tokens = countTokens(text);
      counted.set(text, tokens);
    }
    return tokens;
  };
  return ({ system = "", messages, tools = [] }) =>
    [system, ...[...messages, ...tools].map((part) => JSON.stringify(part))].reduce(
      (sum, text) => sum + count(text),
      0,
    );
}
