import type { LiveCategory } from "../catalog/snapshot.ts";
import { findTarget, type View } from "../catalog/view.ts";
import { type Action, hasSideEffects, summarizeAction } from "../core/action.ts";
import { toOneLine } from "../core/display-text.ts";
import { clip } from "../core/json.ts";
import type { ModelTier } from "../core/surface-choice.ts";
import type { Surface } from "./surface.ts";

export interface PromptSection {
  readonly title: string;
  /** With its heading. The whole prompt has an empty line between sections. */
  readonly text: string;
  /** Counted with o200k, if asked for. */
  readonly tokens?: number;
}

/** A system prompt for a caller's model. */
export interface SystemPrompt {
  readonly text: string;
  /** The beginning of `text` that stays the same, byte for byte, until the view or the actor changes. */
  readonly prefix: string;
  readonly sections: readonly PromptSection[];
  /** The tool that a weak model must be made to call first. Absent: it may choose. */
  readonly firstTool?: string;
}

export interface PromptFacts {
  readonly view: View;
  /** The categories of resources outside the catalog. */
  readonly live: readonly LiveCategory[];
  readonly kind: Surface["kind"];
  readonly canSearch: boolean;
  readonly tier: ModelTier;
  readonly instructions?: string | undefined;
}

/** The part that depends only on what the caller sees and on its actor's settings. It names no action, except in mandates. */
export function buildPromptPrefix(facts: PromptFacts): Pick<SystemPrompt, "sections" | "firstTool"> {
  const { view, live, kind, instructions } = facts;
  // Search does not find resources outside the catalog.
  const categories = describeCategories(view, kind === "deferred" ? [] : live);
  const firstTool = facts.tier === "light" && categories.length > 0 ? DISCOVERY_TOOLS[kind] : undefined;
  const mandates = facts.tier === "light" ? listMandates(view, firstTool) : [];
  const capabilities = createSection("Capabilities", [...describeUse(facts, firstTool), ...mandates]);
  const behaviour = describeBehaviour(live.some(({ name }) => name === "note"));
  const known =
    kind === "flat"
      ? // Without categories, the second time is at the beginning of the next section.
        [capabilities, createSection("Behaviour", [...mandates, ...behaviour, ...mandates])]
      : [
          capabilities,
          createSection("Action categories", [...introduceCategories(kind, categories), ...categories, ...mandates]),
          createSection("Behaviour", [...behaviour, ...mandates]),
        ];
  const own = instructions === undefined ? [] : [createSection("Instructions", [instructions.trim()])];
  return { sections: [...known, ...own], ...(firstTool === undefined ? {} : { firstTool }) };
}

export const createSection = (title: string, lines: readonly string[]): PromptSection => ({
  title,
  text: [`## ${title}`, ...lines].join("\n"),
});

export const joinSections = (sections: readonly PromptSection[]): string =>
  sections.map(({ text }) => text).join("\n\n");

/** The tool that shows a model which actions there are. On the flat surface it has them all. */
const DISCOVERY_TOOLS: { readonly [Kind in Surface["kind"]]?: string } = {
  universal: "list_actions",
  deferred: "tool_search",
};

const CONVERSATION = "- Conversation, such as a greeting or thanks: answer without tools.";

function describeUse({ kind, canSearch }: PromptFacts, firstTool: string | undefined): readonly string[] {
  const then = firstTool === undefined ? "" : ` after ${firstTool}`;
  const thing = kind === "universal" ? "an action" : "a tool";
  const question = `- A question: if ${thing} can look the answer up, use it. Otherwise answer from what you know.`;
  if (kind === "flat")
    return [
      CONVERSATION,
      question,
      "- A task: if the tool is named or obvious, call it directly. Otherwise choose it by the descriptions of your tools.",
    ];
  if (kind === "deferred")
    return [
      "You can call more tools than you are shown.",
      CONVERSATION,
      question,
      `- A task: if the tool is named or obvious, call it directly${then}. Otherwise find it first.`,
      "tool_search finds tools by what they do. tool_get returns their input schemas. Then call them by name.",
      "Search before you say that something cannot be done.",
    ];
  return [
    "Everything you can do is an action. A few tools find actions and run them.",
    CONVERSATION,
    question,
    `- A task: if the action is named or obvious, run it directly with invoke_action${then}. Otherwise find it first.`,
    `${canSearch ? "search_actions finds actions by what they do. " : ""}list_actions with a category returns names, descriptions and input schemas. describe_action returns one action in full.`,
    `${canSearch ? "Search" : "List the actions"} before you say that something cannot be done.`,
  ];
}

function introduceCategories(kind: Surface["kind"], categories: readonly string[]): readonly string[] {
  if (categories.length === 0) return ["No action is available to you now."];
  return kind === "deferred"
    ? ["The tools that tool_search finds:"]
    : ["The name of an action begins with its category:"];
}

const CAPABILITY_LIMIT = 300;

function describeCategories(view: View, live: readonly LiveCategory[]): readonly string[] {
  const listed = view.categories().map((name) => [name, describeActions(view, view.inCategory(name))] as const);
  const stored = live.map(({ name, target }) => [name, describeDefault(view.get(target))] as const);
  return [...listed, ...stored]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, remark]) => {
      const capability = toSentence(view.snapshot.capabilities.get(name) ?? "");
      const said = [capability, remark].filter((part) => part !== "").join(" ");
      return said === "" ? `- ${name}` : `- ${name}: ${said}`;
    });
}

/** Tells what invoking a resource does, or that nothing here changes anything. Says only what the visible actions say. */
function describeActions(view: View, actions: readonly Action[]): string {
  const resource = actions.find(({ canonical }) => canonical !== undefined);
  if (resource !== undefined) return describeDefault(findTarget(view.snapshot, resource));
  return actions.some(({ effect }) => hasSideEffects(effect)) ? "" : "Your actions here change nothing.";
}

function describeDefault(target: Action | undefined): string {
  if (target === undefined) return "";
  const [operation = ""] = summarizeAction(target).split(/[:;]\s/);
  return `Invoking one: ${toSentence(operation)}`;
}

function toSentence(text: string): string {
  const line = clip(toOneLine(text), CAPABILITY_LIMIT);
  return line === "" || /[.!?…]$/.test(line) ? line : `${line}.`;
}

const describeBehaviour = (hasNotes: boolean): readonly string[] => [
  "- Report errors as they are. Follow their hints, and repeat a call only after a change.",
  "- Finish the task. If you cannot, say what is missing.",
  "- Never invent results, names or arguments. Use names exactly as you were given them.",
  "- If a request can mean several things, ask the user before you act.",
  ...(hasNotes
    ? [
        "- A long result is stored: you get a handle and its beginning. Pass the handle on, and load only what you need.",
      ]
    : []),
  "- A call that waits needs a person's approval. Tell the user, do not repeat the call, and go on with what does not need it.",
];

const PARTIAL_EDIT = ["file__edit", "file__write"] as const;

/**
 * Rules that a weak model needs as orders, with the verbs they cover: it ignores recommendations and general words. Each
 * is repeated three times, because it forgets. An order names only what the caller has.
 */
function listMandates(view: View, firstTool: string | undefined): readonly string[] {
  const [edit, write] = PARTIAL_EDIT;
  return [
    ...(firstTool === undefined
      ? []
      : [`Your first tool call MUST be ${firstTool}, before reading, writing, editing or running anything.`]),
    ...(PARTIAL_EDIT.every((name) => view.get(name) !== undefined)
      ? [`To change a part of a file, you MUST use ${edit}, NOT ${write}.`]
      : []),
  ];
}
