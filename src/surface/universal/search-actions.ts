import { z } from "zod";
import type { View } from "../../catalog/view.ts";
import type { Action, JsonSchema, Readiness } from "../../core/action.ts";
import { type HintWords, renderHint } from "../../core/hint.ts";
import { cloneFrozen, omitUndefined } from "../../core/json.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import type { SearchType } from "../../core/surface-choice.ts";
import type { CatalogSearchRequest, CatalogSearchResult } from "../../search/search.ts";
import { joinNotes } from "../pending-note.ts";
import {
  clampLimit,
  composeHint,
  formatHits,
  formatNotes,
  readState,
  searchLimitShape,
  toSearchFacts,
} from "../search-results.ts";
import type { SurfaceTool } from "../surface.ts";
import { fitPage, requireCategories } from "./browse-actions.ts";

export interface ActionSearch {
  readonly query: string;
  /** Default: by words, and by meaning if an embedder is configured. */
  readonly type?: SearchType;
  readonly category?: readonly string[];
  readonly limit?: number;
  readonly detail?: "compact" | "full";
}

/** A found action. Description and schema only with `detail: "full"`. */
export interface FoundAction {
  readonly qualified_name: string;
  readonly score: number;
  readonly short_description?: string;
  readonly signature?: string;
  readonly description?: string;
  readonly input_schema?: JsonSchema;
  readonly state?: Exclude<Readiness, "ready">;
}

export interface FoundActions {
  readonly items: readonly FoundAction[];
  readonly search_type: string;
  readonly unmatched?: readonly string[];
  readonly hint?: string;
  /** Sources, such as MCP servers, whose actions are not known yet. A model reads of them in `hint`. */
  readonly pending?: readonly string[];
}

const NAMES_LISTED = 3;

export const searchActionsTool: SurfaceTool = cloneFrozen({
  name: "search_actions",
  description: "Find actions by what they do, best first.",
  inputSchema: toJsonSchema(
    z.object({
      query: z.string(),
      category: z.array(z.string()).optional(),
      limit: searchLimitShape,
      detail: z.enum(["compact", "full"]).describe("full: with input schemas").default("compact"),
    }),
  ),
  effect: "read",
});

/** Throws `unknown_category` with the valid ones. */
export function toSearchRequest(view: View, { query, type, category = [], limit }: ActionSearch): CatalogSearchRequest {
  requireCategories(view, category);
  const wanted = new Set(category);
  const accepts = wanted.size === 0 ? undefined : (action: Action) => wanted.has(action.category);
  return omitUndefined({ query, type, limit: clampLimit(limit), accepts });
}

/** `text`: the lines that a model reads instead of the data of a compact answer. */
export function toSearchAnswer(
  view: View,
  found: CatalogSearchResult,
  detail: ActionSearch["detail"] = "compact",
  words?: HintWords,
  pendingNote?: string,
) {
  const { hits } = found;
  const remark = composeHint(found, () => renderHint(suggestNextStep(view, found), words) ?? "");
  const hint = joinNotes(remark, pendingNote);
  if (detail === "full") {
    const all = hits.map(({ action, score }) => ({
      qualified_name: action.name,
      score: Math.round(score * 100) / 100,
      description: action.description,
      input_schema: action.inputSchema,
      ...readState(action),
    }));
    const items = fitPage(all);
    const left = all.length - items.length;
    const more = left === 0 ? hint : `${left} more fit; ask for less at a time.${hint === undefined ? "" : ` ${hint}`}`;
    return { data: { items, ...toSearchFacts(found, more) } };
  }
  const { items, text } = formatHits(hits, formatNotes("Nothing available", found, remark, pendingNote));
  const listed = items.map(({ name, summary, signature, score, state }) =>
    omitUndefined({ qualified_name: name, score, short_description: summary, signature, state }),
  );
  return { data: { items: listed, ...toSearchFacts(found, hint) }, text };
}

function suggestNextStep(view: View, { elsewhere = [] }: CatalogSearchResult): string {
  const categories = [...new Set(elsewhere.map(({ action }) => action.category))].sort();
  if (categories.length > 0)
    return `Nothing fits in the categories you asked for; there are fits in ${formatNames(categories)}.`;
  return view.actions().length === 0
    ? "No action is available to you."
    : "Nothing fits. Say it in other words. Browse with {list}.";
}

function formatNames(categories: readonly string[]): string {
  const rest = categories.length - NAMES_LISTED;
  return rest > 0 ? `${categories.slice(0, NAMES_LISTED).join(", ")} and ${rest} more` : categories.join(", ");
}
