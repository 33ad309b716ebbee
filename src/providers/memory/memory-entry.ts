import { defineResource } from "../../catalog/define-action.ts";
import type { Action, ActionOwner } from "../../core/action.ts";
import type { Caller } from "../../core/caller.ts";
import { actionName } from "../../core/names.ts";
import { isMemorySlug, type MemoryLayer, type MemoryText } from "./memory-text.ts";

export const MEMORY_OPERATION = "memory_operation";
export const MEMORY_ENTRY = "memory_entry";

/** The operation that runs when an entry is invoked. */
export const READ_MEMORY = actionName(MEMORY_OPERATION, "read");

/** The entries of one owner. `actor` is empty in the shared layer. */
export interface MemoryScope {
  readonly tenant: string;
  readonly layer: MemoryLayer;
  readonly actor: string;
}

/** One version of an entry without its body. */
export interface MemoryFacts extends Omit<MemoryText, "body"> {
  /** Unique among all versions of all entries. */
  readonly id: number;
  readonly scope: MemoryScope;
  readonly version: number;
  readonly changedAt: Date;
  /** The actor that wrote it, and its user. */
  readonly changedBy: string;
  readonly user?: string;
  readonly characters: number;
}

export interface MemoryVersion extends MemoryFacts, MemoryText {
  /** How it ended. Absent: it is the current version. */
  readonly ended?: { readonly at: Date; readonly by: string; readonly how: "replaced" | "forgotten" };
}

export const getMemoryScope = ({ tenant = "", actor }: Caller, layer: MemoryLayer): MemoryScope => ({
  tenant,
  layer,
  actor: layer === "shared" ? "" : actor,
});

const AGENT_PREFIX = "agent.";

export const formatMemoryEntry = (layer: MemoryLayer, slug: string): string =>
  layer === "shared" ? slug : AGENT_PREFIX + slug;

export function parseMemoryEntry(entry: string): { readonly layer: MemoryLayer; readonly slug: string } | undefined {
  const isOwn = entry.startsWith(AGENT_PREFIX);
  const slug = isOwn ? entry.slice(AGENT_PREFIX.length) : entry;
  return isMemorySlug(slug) ? { layer: isOwn ? "agent" : "shared", slug } : undefined;
}

/** The name and description come from models, so they are quoted. */
export function toMemoryAction(
  entry: Pick<MemoryFacts, "scope" | "slug"> & Partial<Pick<MemoryFacts, "name" | "description" | "type">>,
): Action {
  const { scope, slug, name = "", description = "", type = "reference" } = entry;
  const { tenant, layer, actor } = scope;
  const action = defineResource(MEMORY_ENTRY, {
    entry: formatMemoryEntry(layer, slug),
    description: `Read the ${layer} ${type} memory ${JSON.stringify(name)}: ${JSON.stringify(description)}`,
    target: READ_MEMORY,
    transform: { set: { layer, slug } },
    tags: ["memory", type],
    examples: [{ args: {} }],
  });
  const owner: ActionOwner = layer === "shared" ? { tenant } : { tenant, actor };
  return Object.freeze({ ...action, owner });
}
