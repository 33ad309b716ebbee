import { clip, isRecord, type JsonObject } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import type { Offer, OfferedTool } from "./offer.ts";

/** So much of an offer is taken: far above what honest servers offer, and not enough to fill a store or a memory. */
export const offerLimits = {
  tools: 5_000,
  /** Of resources, of templates and of prompts each. */
  others: 10_000,
  nameLength: 256,
  /** Characters of all keys and texts of one tool, resource, template or prompt. */
  itemLength: 128 * 1024,
  /** Of everything together. */
  totalLength: 8 * 1024 * 1024,
  instructionsLength: 64 * 1024,
  /** Parts of one of them, and how deep they lie. */
  nodes: 20_000,
  depth: 48,
} as const;

const PROBLEMS_TOLD = 20;

/**
 * An offer without what is too large, too deep, or not what it is said to be, and sentences about what was left out.
 * Everything else stays as it came.
 */
export function boundedOffer(offer: Offer): { readonly offer: Offer; readonly problems: readonly string[] } {
  const problems: string[] = [];
  let room: number = offerLimits.totalLength;

  /** Why an item cannot be taken. One that can has taken its room. */
  function problemOf(item: unknown, isFit: (item: Record<string, unknown>) => string | undefined): string | undefined {
    if (!isRecord(item)) return "is no object";
    const size = sizeOf(item);
    if (size === undefined) return "is too large or too deep";
    const problem = isFit(item);
    if (problem !== undefined) return problem;
    if (size > room) return "has no room: all that is offered is too large together";
    room -= size;
    return undefined;
  }

  function take(what: string, items: unknown, limit: number, isFit = anything): readonly JsonObject[] {
    const all: readonly unknown[] = Array.isArray(items) ? items : [];
    if (all.length > limit) problems.push(`it offers ${all.length} ${what}s; only the first ${limit} were taken`);
    return all.slice(0, limit).filter((item, at): item is JsonObject => {
      const problem = problemOf(item, isFit);
      if (problem !== undefined) problems.push(`${what} ${labelOf(item, at)} was left out: it ${problem}`);
      return problem === undefined;
    });
  }

  function small(what: string, part: JsonObject): JsonObject {
    const problem = problemOf(part, anything);
    if (problem !== undefined) problems.push(`what it says as ${what} was left out: it ${problem}`);
    return problem === undefined ? part : {};
  }

  const { instructions, ...rest } = offer;
  if (instructions !== undefined && instructions.length > offerLimits.instructionsLength)
    problems.push(`its instructions have ${instructions.length} characters; only the beginning was taken`);
  const bounded: Offer = {
    ...rest,
    ...(instructions === undefined ? {} : { instructions: clip(instructions, offerLimits.instructionsLength) }),
    serverInfo: small("serverInfo", offer.serverInfo),
    capabilities: small("capabilities", offer.capabilities),
    tools: take("tool", offer.tools, offerLimits.tools, toolProblem) as readonly OfferedTool[],
    resources: take("resource", offer.resources, offerLimits.others),
    resourceTemplates: take("resource template", offer.resourceTemplates, offerLimits.others),
    prompts: take("prompt", offer.prompts, offerLimits.others),
  };
  const told = problems.slice(0, PROBLEMS_TOLD);
  if (problems.length > told.length) told.push(`and ${problems.length - told.length} more were left out`);
  return { offer: bounded, problems: told };
}

function anything(_item: Record<string, unknown>): string | undefined {
  return undefined;
}

function toolProblem({ name, title, description, inputSchema, outputSchema, annotations }: Record<string, unknown>) {
  if (typeof name !== "string" || name === "") return "has no name";
  if (name.length > offerLimits.nameLength) return `has a name of ${name.length} characters`;
  if (!isRecord(inputSchema)) return "has no input schema";
  for (const [field, value] of Object.entries({ title, description })) {
    if (value !== undefined && typeof value !== "string") return `has a ${field} that is no text`;
  }
  for (const [field, value] of Object.entries({ outputSchema, annotations })) {
    if (value !== undefined && !isRecord(value)) return `has \`${field}\` that is no object`;
  }
  return undefined;
}

function labelOf(item: unknown, at: number): string {
  return isRecord(item) && typeof item.name === "string" ? quoted(item.name) : `number ${at + 1}`;
}

/** The characters of all keys and texts; undefined beyond a limit. Does not recurse, so no depth can hurt it. */
function sizeOf(item: Record<string, unknown>): number | undefined {
  const open: { readonly value: unknown; readonly depth: number }[] = [{ value: item, depth: 0 }];
  let size = 0;
  let nodes = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, depth } = next;
    if (++nodes > offerLimits.nodes || depth > offerLimits.depth || size > offerLimits.itemLength) return undefined;
    if (typeof value === "string") size += value.length;
    if (typeof value !== "object" || value === null) continue;
    for (const [key, part] of Object.entries(value)) {
      if (!Array.isArray(value)) size += key.length;
      open.push({ value: part, depth: depth + 1 });
    }
  }
  return size > offerLimits.itemLength ? undefined : size;
}
