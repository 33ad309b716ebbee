import { hash } from "node:crypto";
import type { JsonSchema } from "../../core/action.ts";
import { canonicalJson, clip, getOwn, isRecord, type JsonObject } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { ProtocolEra } from "../server-spec.ts";

/** One tool as its server describes it; what we do not know of is kept as it came. */
export interface OfferedTool extends JsonObject {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly annotations?: JsonObject;
}

/** Everything a server said it offers, when it was last asked. */
export interface ServerOffer {
  readonly protocolVersion: string;
  readonly era: ProtocolEra;
  readonly serverInfo: JsonObject;
  readonly capabilities: JsonObject;
  readonly instructions?: string;
  readonly tools: readonly OfferedTool[];
  readonly resources: readonly JsonObject[];
  readonly resourceTemplates: readonly JsonObject[];
  readonly prompts: readonly JsonObject[];
}

/** What a model is told of a tool, and what decides how a call is treated. Icons and `_meta` are neither. */
export const PINNED_FIELDS = ["name", "title", "description", "inputSchema", "outputSchema", "annotations"] as const;

/** The part of a definition that a person accepted. */
export function pickPinnedFields(tool: OfferedTool): JsonObject {
  return Object.fromEntries(
    PINNED_FIELDS.flatMap((field) => {
      const value = getOwn(tool, field);
      return value === undefined ? [] : [[field, value]];
    }),
  );
}

/**
 * What a definition is pinned by. The order of keys does not count; every character of every text does, seen or not, so
 * nothing is normalised.
 */
export function hashDefinition(tool: OfferedTool): string {
  const pinned = Object.fromEntries(PINNED_FIELDS.map((field) => [field, getOwn(tool, field)]));
  return hash("sha256", canonicalJson(pinned), "hex");
}

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

const PROBLEMS_LISTED = 20;

/**
 * An offer without what is too large, too deep, or not what it is said to be, and sentences about what was left out.
 * Everything else stays as it came.
 */
export function limitOffer(offer: ServerOffer): { readonly offer: ServerOffer; readonly problems: readonly string[] } {
  const problems: string[] = [];
  let room: number = offerLimits.totalLength;

  /** Why an item cannot be taken. One that can has taken its room. */
  function findProblem(
    item: unknown,
    isFit: (item: Record<string, unknown>) => string | undefined,
  ): string | undefined {
    if (!isRecord(item)) return "is no object";
    const size = measureSize(item);
    if (size === undefined) return "is too large or too deep";
    const problem = isFit(item);
    if (problem !== undefined) return problem;
    if (size > room) return "has no room: all that is offered is too large together";
    room -= size;
    return undefined;
  }

  function limitList(what: string, items: unknown, limit: number, isFit = acceptAny): readonly JsonObject[] {
    const all: readonly unknown[] = Array.isArray(items) ? items : [];
    if (all.length > limit) problems.push(`it offers ${all.length} ${what}s; only the first ${limit} were taken`);
    return all.slice(0, limit).filter((item, at): item is JsonObject => {
      const problem = findProblem(item, isFit);
      if (problem !== undefined) problems.push(`${what} ${formatLabel(item, at)} was left out: it ${problem}`);
      return problem === undefined;
    });
  }

  function limitPart(what: string, part: JsonObject): JsonObject {
    const problem = findProblem(part, acceptAny);
    if (problem !== undefined) problems.push(`what it says as ${what} was left out: it ${problem}`);
    return problem === undefined ? part : {};
  }

  const { instructions, ...rest } = offer;
  if (instructions !== undefined && instructions.length > offerLimits.instructionsLength)
    problems.push(`its instructions have ${instructions.length} characters; only the beginning was taken`);
  const bounded: ServerOffer = {
    ...rest,
    ...(instructions === undefined ? {} : { instructions: clip(instructions, offerLimits.instructionsLength) }),
    serverInfo: limitPart("serverInfo", offer.serverInfo),
    capabilities: limitPart("capabilities", offer.capabilities),
    tools: limitList("tool", offer.tools, offerLimits.tools, checkOfferedTool) as readonly OfferedTool[],
    resources: limitList("resource", offer.resources, offerLimits.others),
    resourceTemplates: limitList("resource template", offer.resourceTemplates, offerLimits.others),
    prompts: limitList("prompt", offer.prompts, offerLimits.others),
  };
  const listed = problems.slice(0, PROBLEMS_LISTED);
  if (problems.length > listed.length) listed.push(`and ${problems.length - listed.length} more were left out`);
  return { offer: bounded, problems: listed };
}

function acceptAny(_item: Record<string, unknown>): string | undefined {
  return undefined;
}

function checkOfferedTool({
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  annotations,
}: Record<string, unknown>) {
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

function formatLabel(item: unknown, at: number): string {
  return isRecord(item) && typeof item.name === "string" ? quoteName(item.name) : `number ${at + 1}`;
}

/** The characters of all keys and texts; undefined beyond a limit. Does not recurse, so no depth can hurt it. */
function measureSize(item: Record<string, unknown>): number | undefined {
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
