import type { Action } from "../../src/index.ts";
import { type Json, type JsonObject } from "../../src/core/json.ts";
import type { ActionName } from "../../src/core/names.ts";
import type { Tool } from "./data.ts";

/** One tool as an action of ours, and under the same id for everybody else. */
export interface Entry {
  readonly id: string;
  readonly action: Action;
}

/**
 * Tools as actions: those of a server as `mcp__<server>__<name>`, as the MCP provider names them, the others as
 * `tool__<name>`. What the source calls a category becomes a tag, its title the beginning of the description.
 */
export function entriesOf(tools: readonly Tool[]): readonly Entry[] {
  const taken = new Set<string>();
  return tools
    .map((tool) => ({ id: tool.id, action: actionOf(tool, taken) }))
    .sort((a, b) => (a.action.name < b.action.name ? -1 : 1));
}

function actionOf({ name, server, title, description = "", category, inputSchema }: Tool, taken: Set<string>): Action {
  const entry = server === undefined ? slug(name) : `${slug(server)}__${slug(name)}`;
  const base = server === undefined ? `tool__${entry}` : `mcp__${entry}`;
  let unique = base;
  // Twins of one name stay apart; the number must not become a word that only one of them has.
  for (let copy = 2; taken.has(unique); copy++) unique = `${base}~${copy}`;
  taken.add(unique);
  return {
    name: unique as ActionName,
    category: server === undefined ? "tool" : "mcp",
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
  const parts = text.normalize("NFC").replaceAll(/[^\p{L}\p{N}\p{M}_.:/@+~-]+/gu, "-");
  return parts.replaceAll(/_{2,}/g, "_").replaceAll(/^[-_]+|[-_]+$/g, "") || "x";
}

/** Real schemas come in every state; search only reads them, so all they need is to be an object. */
function schemaOf(raw: unknown): JsonObject {
  return typeof raw === "object" && raw !== null && !Array.isArray(raw) ? (raw as { [key: string]: Json }) : { type: "object" };
}
