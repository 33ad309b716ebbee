import { hash } from "node:crypto";
import type { JsonObject } from "../core/json.ts";
import type { ModelRequest } from "../core/model.ts";
import { asksFor, readTurn } from "./conversation.ts";
import { createTestModel, type TestModel } from "./language-model.ts";
import { answerStep } from "./simulated-step.ts";

/** A task as data: what the user asks, and what a capable model would do about it. */
export interface SimulatedTask {
  /** What the user asks. The model finds its task by it, so the user's message must contain it. */
  readonly goal: string;
  /** The full name of the action that solves the task. The model uses it only to recognize the action when it is shown. */
  readonly action: string;
  /** The arguments that solve it. The model writes them when it was shown the parameters of the action. */
  readonly args: JsonObject;
  /** What it searches for, one after another. Default: the goal. */
  readonly searches?: readonly string[];
  /** Names that a model believes to know from its training, for the failures `skipsDiscovery` and `inventsNames`. */
  readonly knownNames?: readonly string[];
  /** The arguments it writes for an action whose parameters it was not shown. Default: `args`. */
  readonly guessedArgs?: JsonObject;
}

/** How often a model fails in which way. All rates are from 0 to 1. */
export interface SimulatedBehavior {
  /** How often it picks the right action when it is shown. Otherwise it picks the one whose words fit best. */
  readonly recognizes: number;
  /** At each step without a fitting action: it calls a name from its training instead of searching. */
  readonly skipsDiscovery: number;
  /** At each call of a name that it must write itself: the name is slightly wrong, as in `file.write`. */
  readonly inventsNames: number;
  /** At each call: the arguments are JSON text instead of an object. */
  readonly doubleEncodes: number;
  /** At each step that could end the turn: it answers without having done the task. */
  readonly stopsEarly: number;
  /** How often it obeys a rule of its prompt to search first, when the rule is there once, and at least three times. */
  readonly obeysOnce: number;
  readonly obeysThrice: number;
}

/** The tasks that a simulated model can solve, and how it fails. Without rates it is strong. */
export interface SimulatedModelOptions extends Partial<SimulatedBehavior> {
  /** The same seed gives the same answers to the same requests. */
  readonly seed: number;
  readonly tasks: readonly SimulatedTask[];
  /** After so many failed calls it gives up. Default: 3. */
  readonly patience?: number;
}

const strong: SimulatedBehavior = {
  recognizes: 1,
  skipsDiscovery: 0,
  inventsNames: 0,
  doubleEncodes: 0,
  stopsEarly: 0,
  obeysOnce: 0.36,
  obeysThrice: 0.8,
};
const failures = { skipsDiscovery: 0.7, inventsNames: 0.5, doubleEncodes: 0.5, stopsEarly: 0.15 };

/**
 * Models from strong to weak. `obeysOnce` and `obeysThrice` are rates that were observed with a small model; all other rates
 * were chosen to make each failure visible. None of them describes a certain model.
 */
export const simulatedBehaviors = {
  strong,
  skipsDiscovery: { ...strong, skipsDiscovery: failures.skipsDiscovery },
  inventsNames: { ...strong, inventsNames: failures.inventsNames },
  doubleEncodes: { ...strong, doubleEncodes: failures.doubleEncodes },
  stopsEarly: { ...strong, stopsEarly: failures.stopsEarly },
  weak: { ...strong, ...failures, recognizes: 0.9 },
} as const satisfies Readonly<Record<string, SimulatedBehavior>>;

/**
 * Creates a model that tries to solve tasks by what it is shown: its prompt, its tools with their schemas, and results. It
 * searches, picks an action, calls it and answers. At the given rates it fails as weak models do. It cannot do what a model
 * cannot do: it calls the tool that a request demands, and where a schema lists values, it writes one of them.
 *
 * An answer depends only on the seed and the request, so runs can be repeated, interrupted and compared.
 */
export function createSimulatedModel({ seed, tasks, patience = 3, ...given }: SimulatedModelOptions): TestModel {
  const behavior: SimulatedBehavior = { ...strong, ...given };
  return createTestModel("simulated", (request) => {
    const task = findTask(tasks, request);
    if (task === undefined) return { text: "I do not know this task." };
    const chance = (event: string, rate: number): boolean => drawNumber(seed, task.goal, event) < rate;
    return answerStep({ request, turn: readTurn(request, task.goal), task, behavior, patience, chance });
  });
}

/** The task that the user asked for last. Other messages, such as a reminder of the host, change nothing. */
function findTask(tasks: readonly SimulatedTask[], { messages }: ModelRequest): SimulatedTask | undefined {
  for (const message of messages.toReversed()) {
    const task = tasks.find(({ goal }) => asksFor(message, goal));
    if (task !== undefined) return task;
  }
  return undefined;
}

/** From 0 to 1, the same for the same seed, goal and event. */
function drawNumber(seed: number, goal: string, event: string): number {
  return Number.parseInt(hash("sha256", JSON.stringify([seed, goal, event]), "hex").slice(0, 12), 16) / 2 ** 48;
}
