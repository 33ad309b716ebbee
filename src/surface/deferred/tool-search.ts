import { z } from "zod";
import type { Activation } from "../../activation/activation.ts";
import type { Action, Loading } from "../../core/action.ts";
import { frozenCopy } from "../../core/json.ts";
import { type SearchType, searchTypes } from "../../core/search-type.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import type { Found, SearchRequest } from "../../search/search.ts";
import { type Candidate, compactHits } from "../compact.ts";
import { cutLimit, hintOf, howFound, limitShape, saidBeside } from "../found.ts";
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

const NAMED = 3;

export const toolSearchTool: SurfaceTool = frozenCopy({
  name: "tool_search",
  description: "Find tools by what they do, best first. Any tool found can be called by its name.",
  inputSchema: toJsonSchema(
    z.object({
      query: z.string(),
      search_type: z.enum(searchTypes).optional(),
      limit: limitShape,
      include_always_loaded: z.boolean().describe("Also tools you are shown from the start").default(false),
    }),
  ),
  effect: "read",
});

type LoadingOf = Activation["loadingOf"];

/** The search that a model asks for. */
export function searchFor(
  { query, search_type, limit, include_always_loaded = false }: ToolSearch,
  loadingOf: LoadingOf,
): SearchRequest {
  return {
    query,
    ...(limit === undefined ? {} : { limit: cutLimit(limit) }),
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
  const { hits } = found;
  const hint = hintOf(found, () => nextStep(found));
  const { items, text } = compactHits(hits, saidBeside("No tool", found, hint));
  const tools = items.map(({ summary, ...rest }, index): FoundTool => {
    const hit = hits[index];
    return { ...rest, description: summary, loading: hit === undefined ? "deferred" : loadingOf(hit.action) };
  });
  return { data: { tools, query, ...howFound(found, hint) }, text };
}

function nextStep({ elsewhere = [] }: Found): string {
  const shown = elsewhere
    .slice(0, NAMED)
    .map(({ action }) => action.name)
    .join(", ");
  return shown === "" ? "Nothing fits. Say it in other words." : `Nothing more fits; you have ${shown} from the start.`;
}
