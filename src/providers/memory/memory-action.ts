import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { yieldToEventLoop } from "../../core/async.ts";
import type { Caller } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import { didYouMean } from "../../core/nearest.ts";
import { isListed, type ResourceAccess } from "../../core/resource-access.ts";
import type { InputSchema } from "../../core/standard-schema.ts";
import type { TextChecks } from "../../core/text-checks.ts";
import {
  formatMemoryEntry,
  getMemoryScope,
  MEMORY_ENTRY,
  MEMORY_OPERATION,
  type MemoryFacts,
  type MemoryScope,
  toMemoryAction,
} from "./memory-entry.ts";
import type { MemoryStore } from "./memory-store.ts";
import { type MemoryLayer, memoryLayers, memoryLimits, memoryTypes, SLUG_FORM } from "./memory-text.ts";

export interface MemorySearchQuery {
  readonly query: string;
  /** The ids of entries that the caller may not see: they must not influence the answer. */
  readonly hidden: readonly number[];
  readonly limit: number;
  readonly signal: AbortSignal;
}

/** The ids of the versions that were found, the best first, and a remark on how. */
export interface MemorySearchResult {
  readonly ids: readonly number[];
  readonly note?: string;
}

/** Everything that the actions on memory need from outside. */
export interface MemoryParts extends TextChecks {
  readonly store: MemoryStore;
  readonly now: () => Date;
  /** The policy's decision on an entry, besides that on the operation. */
  access(entry: Action, caller: Caller): ResourceAccess;
  /** Searches the current entries of these scopes. */
  search(scopes: readonly MemoryScope[], query: MemorySearchQuery): Promise<MemorySearchResult>;
}

/** Memory holds what a model may see, so redaction tokens in arguments stay tokens. */
export const defineMemoryAction = <Schema extends InputSchema>(
  declared: Omit<Parameters<typeof defineAction<Schema>>[1], "tags">,
): Action =>
  Object.freeze({
    ...defineAction<Schema>(MEMORY_OPERATION, { ...declared, tags: ["memory", declared.effect] }),
    keepsTokens: true,
  });

export const slugShape = z
  .string()
  .min(1)
  .max(memoryLimits.slug)
  .regex(SLUG_FORM)
  .describe("Short name of the memory: lower-case letters and digits, joined by single - or _.");

export const layerShape = z
  .enum(memoryLayers)
  .describe("shared: all actors of your tenant have it. agent: only you have it.");

export const typeShape = z
  .enum(memoryTypes)
  .describe(
    "user: facts about the user. feedback: how to work. project: facts about the work. reference: where to find things.",
  );

export const formatMemoryName = (layer: MemoryLayer, slug: string): string =>
  `${MEMORY_ENTRY}__${formatMemoryEntry(layer, slug)}`;

/** The fields of an entry for models and programs. */
export const toMemoryView = ({ scope, slug, name, description, type, version, ...facts }: MemoryFacts) => ({
  action: formatMemoryName(scope.layer, slug),
  layer: scope.layer,
  slug,
  name,
  description,
  type,
  version,
  characters: facts.characters,
  changed_at: facts.changedAt.toISOString(),
  changed_by: facts.changedBy,
});

/** An entry, or as much of it as is known: its type is one of the tags that rules see. */
type EntryFacts = Parameters<typeof toMemoryAction>[0];

/**
 * Throws if the policy refuses the entry itself: the operation must not be a way around a rule about the entry. `reads`: an
 * entry that can be read only with approval needs one here, too.
 */
export async function requireMemoryAccess(
  parts: Pick<MemoryParts, "store" | "access">,
  entry: EntryFacts,
  { caller, approvalDecision }: Pick<CallContext, "caller" | "approvalDecision">,
  { reads }: { readonly reads: boolean },
): Promise<void> {
  const { slug, scope } = entry;
  const answer = parts.access(toMemoryAction(entry), caller);
  if (answer === "allowed") return;
  if (answer === "hidden") throw await createUnknownMemoryError(parts, { layer: scope.layer, slug }, { caller });
  if (answer.asks && (!reads || approvalDecision !== undefined)) return;
  throw new QmError("denied", `the memory ${slug} may not be used: ${answer.refused}`);
}

/** Throws as `requireMemoryAccess` does, about the newest version: errors about others tell that the memory exists. */
export async function requireHistoryAccess(
  parts: Pick<MemoryParts, "store" | "access">,
  { scope, slug }: Pick<MemoryFacts, "scope" | "slug">,
  context: Pick<CallContext, "caller" | "approvalDecision">,
  { reads }: { readonly reads: boolean },
): Promise<void> {
  const { versions } = await parts.store.history(scope, slug, { offset: 0, limit: 1 });
  const [newest] = versions;
  if (newest === undefined) throw await createUnknownMemoryError(parts, { layer: scope.layer, slug }, context);
  await requireMemoryAccess(parts, newest, context, { reads });
}

const DECISIONS_PER_TURN = 50;

/** Splits entries into those that the caller may see in lists, and the others. */
export async function splitByAccess(
  { access }: Pick<MemoryParts, "access">,
  entries: readonly MemoryFacts[],
  caller: Caller,
): Promise<{ readonly listed: readonly MemoryFacts[]; readonly hidden: readonly MemoryFacts[] }> {
  const listed: MemoryFacts[] = [];
  const hidden: MemoryFacts[] = [];
  for (const [at, entry] of entries.entries()) {
    if (at % DECISIONS_PER_TURN === 0) await yieldToEventLoop();
    (isListed(access(toMemoryAction(entry), caller)) ? listed : hidden).push(entry);
  }
  return { listed, hidden };
}

/** Suggestions come only from the layers of the caller, and only with entries that the policy lets it see. */
export async function createUnknownMemoryError(
  parts: Pick<MemoryParts, "store" | "access">,
  { layer, slug }: { readonly layer: MemoryLayer; readonly slug: string },
  { caller }: Pick<CallContext, "caller">,
): Promise<QmError> {
  const listSlugs = async (from: MemoryLayer): Promise<readonly string[]> => {
    const entries = await parts.store.list(getMemoryScope(caller, from));
    return (await splitByAccess(parts, entries, caller)).listed.map((each) => each.slug);
  };
  const other = memoryLayers.find((each) => each !== layer) ?? layer;
  const isInOther = (await listSlugs(other)).includes(slug);
  const hint = isInOther
    ? `The ${other} layer has a memory of this name. {qm memory show ${slug} --layer ${other}} shows it.`
    : "List the memories to see their names. The command is {qm memory list}.";
  const message = `no ${layer} memory is called ${slug}${didYouMean(slug, await listSlugs(layer))}`;
  return new QmError("not_found", message, { hint });
}
