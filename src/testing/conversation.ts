import type { JsonSchema } from "../core/action.ts";
import { isRecord } from "../core/json.ts";
import type { ModelMessage, ModelRequest, ModelToolCall } from "../core/model.ts";

/** An action that a model was shown, as a tool or in the result of a call. */
export interface ShownAction {
  readonly name: string;
  /** Its name and what was said about it. */
  readonly text: string;
  /** Whether its arguments were shown. */
  readonly hasArguments: boolean;
}

/** A call of the current turn with its result. */
export interface AnsweredCall {
  readonly tool: string;
  /** The code of its error. Undefined: it succeeded. */
  readonly code: string | undefined;
}

/** What a model can know of its turn: everything here comes from the request. */
export interface ShownTurn {
  readonly calls: readonly AnsweredCall[];
  readonly actions: ReadonlyMap<string, ShownAction>;
}

/** The tools that find actions, in the order in which a model prefers them. */
export const discoveryTools: readonly string[] = ["search_actions", "tool_search", "list_actions"];
const lookupTools: readonly string[] = [...discoveryTools, "describe_action", "tool_get"];
const wrapperTools: readonly string[] = [...lookupTools, "invoke_action", "respond"];

export const isLookup = (tool: string): boolean => lookupTools.includes(tool);

/** Reads the tools, and the messages since the user asked for a goal. */
export function readTurn({ messages, tools = [] }: ModelRequest, goal: string): ShownTurn {
  const turn = messages.slice(messages.findLastIndex((message) => asksFor(message, goal)) + 1);
  const called = new Map<string, ModelToolCall>();
  const calls: AnsweredCall[] = [];
  const actions = new Map<string, ShownAction>();
  const show = (action: ShownAction): void => {
    const known = actions.get(action.name);
    if (known === undefined || (action.hasArguments && !known.hasArguments)) actions.set(action.name, action);
  };
  for (const { name, description } of tools)
    if (!wrapperTools.includes(name)) show({ name, text: `${name} ${description}`, hasArguments: true });
  for (const message of turn) {
    if (message.role === "assistant") for (const call of message.toolCalls) called.set(call.id, call);
    if (message.role !== "tool") continue;
    for (const { id, name, text } of message.results) {
      const data = parseJson(text);
      const code = isRecord(data) && typeof data.error === "string" ? String(data.code) : undefined;
      calls.push({ tool: called.get(id)?.name ?? name, code });
      for (const action of listShownActions(data ?? text)) show(action);
    }
  }
  return { calls, actions };
}

export const asksFor = (message: ModelMessage, goal: string): boolean =>
  message.role === "user" && message.text.includes(goal);

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A line of a search answer: `file__read(path: string) [0.9] Reads a file.` */
const FOUND_LINE = /^(\S+?__[^\s(]+)(\(.*\)) \[[^\]]*\](.*)$/;

/** An error of a call with wrong arguments. It has the schema of the action. */
const MISUSED_ACTION = /^the arguments of (\S+) do not fit/;

/** The actions in the result of a lookup, and those that an error is about or suggests. */
function listShownActions(result: unknown): readonly ShownAction[] {
  if (typeof result === "string")
    return result.split("\n").flatMap((line) => {
      const [, name, , summary = ""] = FOUND_LINE.exec(line) ?? [];
      return name === undefined ? [] : [{ name, text: `${name} ${summary}`, hasArguments: true }];
    });
  if (!isRecord(result)) return [];
  const lists = [result.items, result.tools].flatMap((list): readonly unknown[] => (Array.isArray(list) ? list : []));
  const suggestions: readonly unknown[] = Array.isArray(result.suggestions) ? result.suggestions : [];
  const misused = MISUSED_ACTION.exec(String(result.error))?.[1];
  return [
    ...(misused === undefined ? [] : [{ name: misused, text: misused, hasArguments: true }]),
    ...[result, ...lists].flatMap(readListedAction),
    ...suggestions.map((name) => ({ name: String(name), text: String(name), hasArguments: false })),
  ];
}

function readListedAction(item: unknown): readonly ShownAction[] {
  if (!isRecord(item)) return [];
  const name = item.qualified_name ?? item.name;
  if (typeof name !== "string" || !name.includes("__")) return [];
  const said = item.description ?? item.short_description ?? "";
  return [{ name, text: `${name} ${said}`, hasArguments: isRecord(item.input_schema) || "signature" in item }];
}

const STOP_WORDS = new Set(
  "a an and are as at be by can do for from get give how i in is it me my of on or please show tell that the this to use want what which with you".split(
    " ",
  ),
);

/** The words of a text that say what it is about, also those inside names. */
export function listWords(text: string): readonly string[] {
  const parts = text.replaceAll(/(\p{Ll})(\p{Lu})/gu, "$1 $2").toLowerCase();
  return (parts.match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => word.length > 1 && !STOP_WORDS.has(word));
}

/** How well a text fits a goal, from 0 to 1: the share of the goal's words in it, and a little for being short. */
export function scoreText(goal: string, text: string): number {
  const wanted = new Set(listWords(goal));
  const own = new Set(listWords(text));
  if (wanted.size === 0 || own.size === 0) return 0;
  const shared = [...wanted].filter((word) => own.has(word)).length;
  return shared / wanted.size + shared / own.size / 10;
}

/** The values that a parameter of a tool allows. Undefined: any. */
export function readChoice(schema: JsonSchema | undefined, parameter: string): readonly string[] | undefined {
  const properties = schema?.properties;
  const property = isRecord(properties) && Object.hasOwn(properties, parameter) ? properties[parameter] : undefined;
  const values = isRecord(property)
    ? (property.enum ?? (isRecord(property.items) ? property.items.enum : undefined))
    : undefined;
  return Array.isArray(values) ? values.filter((value) => typeof value === "string") : undefined;
}
