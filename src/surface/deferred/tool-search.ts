import { z } from "zod";
import type { Activation } from "../../activation/activation.ts";
import type { Action, Loading } from "../../core/action.ts";
import { frozenCopy } from "../../core/json.ts";
import { type SearchType, searchTypes } from "../../core/search-type.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import type { Found, SearchRequest } from "../../search/search.ts";
import { type Candidate, compactHits } from "../compact.ts";
import type { SurfaceTool } from "../surface.ts";

export interface ToolSearch {
  readonly query: string;
  readonly search_type?: SearchType;
  readonly limit?: number;
  readonly include_always_loaded?: boolean;
}

/** A tool that was found. It is called by its name, shown or not. */
export interface FoundTool extends Omit<Candidate, "summary"> {
  readonly description: string;
  readonly loading: Loading;
}

export interface FoundTools {
  readonly tools: readonly FoundTool[];
  readonly query: string;
  /** How it was searched. */
  readonly search_type: SearchType;
  /** The words that nothing available has. */
  readonly unmatched?: readonly string[];
  readonly hint?: string;
}

const LIMIT = 8;
const HIGHEST_LIMIT = 20;
const NAMED = 3;

export const toolSearchTool: SurfaceTool = frozenCopy({
  name: "tool_search",
  description: "Find tools by what they do, best first. Any tool found can be called by its name.",
  inputSchema: toJsonSchema(
    z.object({
      query: z.string(),
      search_type: z.enum(searchTypes).optional(),
      limit: z.int().min(1).describe("At most 20").default(LIMIT),
      include_always_loaded: z.boolean().describe("Also tools you are shown from the start").default(false),
    }),
  ),
  effect: "read",
});

type LoadingOf = Activation["loadingOf"];

/** The search that a model asks for. */
export function searchFor(
  { query, search_type, limit = LIMIT, include_always_loaded = false }: ToolSearch,
  loadingOf: LoadingOf,
): SearchRequest {
  return {
    query,
    limit: Math.min(limit, HIGHEST_LIMIT),
    ...(search_type === undefined ? {} : { type: search_type }),
    ...(include_always_loaded ? {} : { accepts: (action: Action) => loadingOf(action) === "deferred" }),
  };
}

/** The answer to a search, whole and as the model reads it. */
export function foundTools(
  query: string,
  found: Found,
  loadingOf: LoadingOf,
): { readonly data: FoundTools; readonly text: string } {
  const { hits, effective, unmatched } = found;
  const hint = hintFor(found);
  const missing = unmatched.length === 0 ? [] : [`No tool has: ${unmatched.join(", ")}`];
  const { items, text } = compactHits(hits, [...missing, ...(hint === undefined ? [] : [hint])]);
  const tools = items.map(({ summary, ...rest }, index): FoundTool => {
    const hit = hits[index];
    return { ...rest, description: summary, loading: hit === undefined ? "deferred" : loadingOf(hit.action) };
  });
  const data = {
    tools,
    query,
    search_type: effective,
    ...(unmatched.length === 0 ? {} : { unmatched }),
    ...(hint === undefined ? {} : { hint }),
  };
  return { data, text };
}

function hintFor({ hits, elsewhere = [], note }: Found): string | undefined {
  if (hits.length > 0) return note;
  const shown = elsewhere
    .slice(0, NAMED)
    .map(({ action }) => action.name)
    .join(", ");
  const next =
    shown === "" ? "Nothing fits. Say it in other words." : `Nothing more fits; you have ${shown} from the start.`;
  return note === undefined ? next : `${next} ${note}`;
}
