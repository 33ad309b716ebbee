import type { JsonObject } from "../core/json.ts";
import type { ModelRequest } from "../core/model.ts";
import { SEPARATOR } from "../core/names.ts";
import { toWireName } from "../core/wire-names.ts";
import {
  discoveryTools,
  isLookup,
  listWords,
  readChoice,
  type ShownAction,
  type ShownTurn,
  scoreText,
} from "./conversation.ts";
import type { PlayedAnswer, PlayedCall } from "./language-model.ts";
import type { SimulatedBehavior, SimulatedTask } from "./simulated-model.ts";

interface Step {
  readonly request: ModelRequest;
  readonly turn: ShownTurn;
  readonly task: SimulatedTask;
  readonly behavior: SimulatedBehavior;
  readonly patience: number;
  /** Whether something with this rate happens. The same event always has the same answer. */
  readonly chance: (event: string, rate: number) => boolean;
}

/** Answers one request of a turn, by what the turn has shown so far. */
export function answerStep(step: Step): PlayedAnswer {
  const { request, turn, behavior, patience, chance } = step;
  const { tools = [], toolChoice = "auto" } = request;
  const at = turn.calls.length;
  const end: PlayedAnswer = { text: isSolved(turn) ? "It is done." : "I could not do it." };
  if (tools.length === 0 || toolChoice === "none") return end;
  if (typeof toolChoice === "object") return call(callForcedTool(step, toolChoice.tool));
  const canStop = toolChoice === "auto";
  if (canStop && isSolved(turn)) return end;
  if (canStop && chance(`stop ${at}`, behavior.stopsEarly)) return { text: "I will do that for you." };
  const failed = turn.calls.filter(({ code }) => code !== undefined).length;
  const next = failed < patience && !isSolved(turn) ? findNextCall(step) : undefined;
  if (next !== undefined) return call(next);
  if (canStop) return end;
  const respond = tools.find(({ name }) => name === "respond") ?? tools[0];
  return call(callForcedTool(step, respond?.name ?? ""));
}

const call = (made: PlayedCall): PlayedAnswer => ({ toolCalls: [made] });

/** A model cannot see whether it called the right action, only whether the call succeeded. */
const isSolved = ({ calls }: ShownTurn): boolean =>
  calls.some(({ tool, code }) => code === undefined && !isLookup(tool));

function findNextCall(step: Step): PlayedCall | undefined {
  const { request, turn, behavior, chance } = step;
  const picked = pickAction(step);
  if (picked !== undefined) return callAction(step, picked);
  const tool = discoveryTools.find((name) => request.tools?.some((each) => each.name === name));
  const search = tool === undefined ? undefined : discover(step, tool);
  const at = turn.calls.length;
  const skips = chance(`skip ${at}`, behavior.skipsDiscovery) && !chance("obey", getObedience(step));
  if (search !== undefined && !skips) return search;
  if (skips) return callByName(step, guessName(step), false);
  const best = findBestMatch(step.task.goal, [...turn.actions.values()]);
  return best === undefined ? undefined : callAction(step, best);
}

/** The action that solves the task, if it was shown and the model recognizes it. */
function pickAction({ turn, task, behavior, chance }: Step): ShownAction | undefined {
  const shown = turn.actions.get(task.action) ?? turn.actions.get(toWireName(task.action));
  if (shown === undefined || chance("recognize", behavior.recognizes)) return shown;
  const others = [...turn.actions.values()].filter((action) => action !== shown);
  return findBestMatch(task.goal, others) ?? shown;
}

function findBestMatch(goal: string, actions: readonly ShownAction[]): ShownAction | undefined {
  let best: ShownAction | undefined;
  let bestScore = 0;
  for (const action of actions) {
    const score = scoreText(goal, action.text);
    if (score > bestScore) [best, bestScore] = [action, score];
  }
  return best;
}

/** How often a rule to search first is obeyed, by how often the prompt has it. */
function getObedience({ request: { system = "" }, behavior }: Step): number {
  const rules = system.split(/(?<=[.!:])\s|\n/).filter((sentence) => {
    return /\b(?:must|always|first)\b/i.test(sentence) && discoveryTools.some((tool) => sentence.includes(tool));
  });
  if (rules.length === 0) return 0;
  return rules.length < 3 ? behavior.obeysOnce : behavior.obeysThrice;
}

/** Undefined when everything was searched for. */
function discover({ request, turn, task }: Step, tool: string): PlayedCall | undefined {
  const { goal, searches = [goal] } = task;
  const queries = [...new Set([...searches, goal])];
  const query = queries[turn.calls.filter((made) => made.tool === tool).length];
  if (query === undefined) return undefined;
  if (tool !== "list_actions") return { name: tool, args: { query } };
  const schema = request.tools?.find(({ name }) => name === tool)?.inputSchema;
  const words = listWords(query);
  const category = readChoice(schema, "category")?.find((name) => listWords(name).some((word) => words.includes(word)));
  const filter = words.toSorted((a, b) => b.length - a.length)[0] ?? "";
  return { name: tool, args: category === undefined ? { filter } : { category: [category] } };
}

/** What a request demands is done, also if the model would have done something else. */
function callForcedTool(step: Step, tool: string): PlayedCall {
  const { turn, task } = step;
  if (discoveryTools.includes(tool)) return discover(step, tool) ?? { name: tool };
  if (tool === "invoke_action") return callByName(step, pickAction(step)?.name ?? guessName(step), true);
  if (tool === "respond") return { name: tool, args: { parts: [{ partType: "response", text: "That is all." }] } };
  const shown = turn.actions.get(tool);
  return shown === undefined ? { name: tool } : { name: tool, args: writeToolArguments(step, task.args) };
}

function callAction(step: Step, { name, hasArguments }: ShownAction): PlayedCall {
  const { request, task, behavior, turn, chance } = step;
  const args = hasArguments ? task.args : (task.guessedArgs ?? task.args);
  if (request.tools?.some((tool) => tool.name === name)) return { name, args: writeToolArguments(step, args) };
  const invents = chance(`invent ${turn.calls.length}`, behavior.inventsNames);
  return callByName(step, invents ? distortName(step, name) : name, hasArguments);
}

/** Calls a name that is not a tool: through `invoke_action`, which may list the names, or as if it were a tool. */
function callByName(step: Step, wanted: string, knowsArguments: boolean): PlayedCall {
  const { request, task } = step;
  const args = knowsArguments ? task.args : (task.guessedArgs ?? task.args);
  const invoke = request.tools?.find(({ name }) => name === "invoke_action");
  if (invoke === undefined) return { name: wanted.replaceAll(/[^\w-]/g, "_"), args: writeToolArguments(step, args) };
  const action_name = chooseListed(step, wanted, readChoice(invoke.inputSchema, "action_name"));
  return { name: invoke.name, args: { action_name, args: writeArguments(step, args) } };
}

/** Where a schema lists values, a model can write no other. */
function chooseListed({ task }: Step, wanted: string, listed: readonly string[] | undefined): string {
  if (listed === undefined || listed.includes(wanted)) return wanted;
  if (listed.includes(task.action)) return task.action;
  return findBestMatch(`${wanted} ${task.goal}`, listed.map(toShown))?.name ?? listed[0] ?? wanted;
}

const toShown = (name: string): ShownAction => ({ name, text: name, hasArguments: false });

/** As a value inside of other arguments. */
function writeArguments({ turn, behavior, chance }: Step, args: JsonObject): JsonObject | string {
  return chance(`encode ${turn.calls.length}`, behavior.doubleEncodes) ? JSON.stringify(args) : args;
}

/** As the arguments of a tool, which are JSON text already. */
function writeToolArguments(step: Step, args: JsonObject): JsonObject | string {
  const written = writeArguments(step, args);
  return typeof written === "string" ? JSON.stringify(written) : written;
}

/** A name from training: one of the task's, or the first words of the goal. */
function guessName({ task, turn }: Step): string {
  const { knownNames = [], goal } = task;
  return knownNames[turn.calls.length % Math.max(1, knownNames.length)] ?? listWords(goal).slice(0, 3).join("_");
}

const SYNONYMS: Readonly<Record<string, string>> = {
  create: "add",
  delete: "remove",
  edit: "modify",
  find: "search",
  get: "fetch",
  list: "show_all",
  read: "load",
  search: "find",
  update: "modify",
  write: "save",
};

/** The name as a model remembers it that has read many others: with a dot, with other words, or without its category. */
function distortName({ task, turn, chance }: Step, name: string): string {
  const at = name.lastIndexOf(SEPARATOR);
  const [category, entry] = [name.slice(0, at), name.slice(at + SEPARATOR.length)];
  const kind = category.split(SEPARATOR).at(-1) ?? category;
  const renamed = entry.replaceAll(/[a-z]+/g, (word) =>
    Object.hasOwn(SYNONYMS, word) ? (SYNONYMS[word] ?? word) : word,
  );
  const forms = [
    ...(task.knownNames ?? []),
    `${kind}.${entry}`,
    `${name}_${kind}`,
    `${category}${SEPARATOR}${renamed}`,
    `${renamed}_${kind}`,
  ];
  const isPicked = (index: number): boolean => chance(`form ${turn.calls.length} ${index}`, 1 / (forms.length - index));
  return forms.find((_form, index) => isPicked(index)) ?? name;
}
