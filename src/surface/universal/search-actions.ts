import { z } from "zod";
import type { View } from "../../catalog/view.ts";
import type { JsonSchema, Readiness } from "../../core/action.ts";
import { cloneFrozen } from "../../core/json.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import type { SearchType } from "../../core/surface-choice.ts";
import type { CatalogSearchRequest, CatalogSearchResult } from "../../search/search.ts";
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
  /** Absent: by words, and by meaning too where an embedder is configured. */
  readonly type?: SearchType;
  readonly category?: readonly string[];
  readonly limit?: number;
  readonly detail?: "compact" | "full";
}

/** An action that was found; with its description and schema where they were asked for. */
export interface FoundAction {
  readonly qualified_name: string;
  readonly score: number;
  readonly short_description?: string;
  readonly signature?: string;
  readonly description?: string;
  readonly input_schema?: JsonSchema;
  /** Why it cannot be used right away; absent when it can. */
  readonly state?: Exclude<Readiness, "ready">;
}

export interface FoundActions {
  readonly items: readonly FoundAction[];
  /** How it was searched. */
  readonly search_type: string;
  /** The words that nothing available has. */
  readonly unmatched?: readonly string[];
  readonly hint?: string;
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

/** The search that is asked for. Throws `unknown_category` with the valid ones. */
export function toSearchRequest(view: View, { query, type, category = [], limit }: ActionSearch): CatalogSearchRequest {
  requireCategories(view, category);
  const wanted = new Set(category);
  return {
    query,
    ...(type === undefined ? {} : { type }),
    ...(limit === undefined ? {} : { limit: clampLimit(limit) }),
    ...(wanted.size === 0 ? {} : { accepts: (action) => wanted.has(action.category) }),
  };
}

/** The answer to a search, and for a compact one the lines that a model reads in its place. */
export function toSearchAnswer(
  view: View,
  found: CatalogSearchResult,
  detail: ActionSearch["detail"] = "compact",
): { readonly data: FoundActions; readonly text?: string } {
  const { hits } = found;
  const hint = composeHint(found, () => suggestNextStep(view, found));
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
  const { items, text } = formatHits(hits, formatNotes("Nothing available", found, hint));
  return {
    data: {
      items: items.map(({ name, summary, signature, score, state }) => ({
        qualified_name: name,
        score,
        short_description: summary,
        signature,
        ...(state === undefined ? {} : { state }),
      })),
      ...toSearchFacts(found, hint),
    },
    text,
  };
}

function suggestNextStep(view: View, { elsewhere = [] }: CatalogSearchResult): string {
  const categories = [...new Set(elsewhere.map(({ action }) => action.category))].sort();
  if (categories.length > 0)
    return `Nothing fits in the categories you asked for; there are fits in ${formatNames(categories)}.`;
  return view.actions().length === 0
    ? "No action is available to you."
    : "Nothing fits. Say it in other words, or browse with list_actions.";
}

/** Some of them by name and the rest as a number: a hint is a line. */
function formatNames(categories: readonly string[]): string {
  const rest = categories.length - NAMES_LISTED;
  return rest > 0 ? `${categories.slice(0, NAMES_LISTED).join(", ")} and ${rest} more` : categories.join(", ");
}
