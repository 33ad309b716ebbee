import type { Json } from "../../src/core/json.ts";
import type { ActionName } from "../../src/core/names.ts";
import type { Action } from "../../src/index.ts";
import type { Tool } from "./data.ts";

/** One tool as an action, and its id in the relevance judgements. */
export interface Entry {
  readonly id: string;
  readonly action: Action;
}

/**
 * Converts tools to actions. Tools of a server are named `mcp__<server>__<name>`, like those of the MCP provider, the others
 * `tool__<name>`. The source's category becomes a tag, and its title the beginning of the description.
 */
export function entriesOf(tools: readonly Tool[]): readonly Entry[] {
  const taken = new Set<string>();
  return tools
    .map((tool) => ({ id: tool.id, action: actionOf(tool, taken) }))
    .sort((a, b) => (a.action.name < b.action.name ? -1 : 1));
}

function actionOf({ name, server, title, description = "", category, inputSchema }: Tool, taken: Set<string>): Action {
  const base = server === undefined ? `tool__${slug(name)}` : `mcp__${slug(server)}__${slug(name)}`;
  let unique = base;
  for (let copy = 2; taken.has(unique); copy++) unique = `${base}~${copy}`;
  taken.add(unique);
  return {
    name: unique as ActionName,
    category: unique.slice(0, unique.indexOf("__")),
    entry: unique.slice(unique.indexOf("__") + 2),
    description: title === undefined || title === name ? description : `${title}. ${description}`,
    inputSchema: schemaOf(inputSchema),
    effect: "read",
    tags: category === undefined ? [] : [category],
    aliases: [],
    examples: [],
    scope: "generalist",
    routing: "routed",
    requiresApproval: false,
    peerExposed: false,
    idempotent: true,
    run: () => null,
  };
}

function slug(text: string): string {
  const allowed = text.normalize("NFC").replaceAll(/[^\p{L}\p{N}\p{M}_.:/@+~-]+/gu, "-");
  return allowed.replaceAll(/_{2,}/g, "_").replaceAll(/^[-_]+|[-_]+$/g, "") || "x";
}

/** Real schemas are often malformed. Search only reads them, so any object will do. */
function schemaOf(raw: unknown): Action["inputSchema"] {
  return isObject(raw) ? (raw as { [key: string]: Json }) : { type: "object" };
}

/** The input of the other rankers: the same texts, and names also split into words, which they do not do themselves. */
export interface Texts {
  readonly name: string;
  readonly server: string;
  readonly description: string;
  readonly parameters: string;
}

export function textsOf({ name, description, tags, inputSchema }: Action): Texts {
  const cut = name.lastIndexOf("__");
  const parameters: string[] = [];
  const walk = (part: unknown, depth: number): void => {
    if (depth > 8 || !isObject(part)) return;
    if (typeof part.description === "string") parameters.push(part.description);
    if (Array.isArray(part.enum)) parameters.push(...part.enum.filter((value) => typeof value === "string"));
    if (isObject(part.properties)) {
      for (const [key, value] of Object.entries(part.properties)) {
        parameters.push(spread(key));
        walk(value, depth + 1);
      }
    }
    walk(part.items, depth + 1);
  };
  walk(inputSchema, 0);
  return {
    name: spread(name.slice(cut + 2)),
    server: [spread(name.slice(0, cut)), ...tags].join(" "),
    description,
    parameters: parameters.join(" "),
  };
}

function spread(name: string): string {
  const parts = name.replaceAll(/(\p{Ll})(\p{Lu})/gu, "$1 $2");
  return parts === name ? name : `${name} ${parts}`;
}

function isObject(value: unknown): value is { [key: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
