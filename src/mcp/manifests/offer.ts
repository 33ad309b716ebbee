import { hash } from "node:crypto";
import type { JsonSchema } from "../../core/action.ts";
import { canonicalJson, clip, getOwn, isRecord, type JsonObject, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { ProtocolEra } from "../server-spec.ts";
import type { OfferedSkill } from "./offered-skill.ts";

/** A tool as its server describes it, or a skill in the form of a tool. Unknown fields are kept. */
export type OfferedTool = JsonObject & {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly annotations?: JsonObject;
  /** Only of a skill: what its digests bind an approval to. */
  readonly skill?: OfferedSkill;
};

/** Everything a server offered when it was last listed. */
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

/** The fields that a model sees or that decide how a call is treated. Icons and `_meta` are neither. */
export const PINNED_FIELDS = [
  "name",
  "title",
  "description",
  "inputSchema",
  "outputSchema",
  "annotations",
  "skill",
] as const;

export const pickPinnedFields = (tool: OfferedTool): JsonObject =>
  omitUndefined(Object.fromEntries(PINNED_FIELDS.map((field) => [field, getOwn(tool, field)]))) as JsonObject;

/** The hash that pins a definition. It ignores the order of keys. Nothing is normalized: every character counts. */
export function hashDefinition(tool: OfferedTool): string {
  return hash("sha256", canonicalJson(pickPinnedFields(tool)), "hex");
}

/** Far above the offers of honest servers, but too little to fill a store or the memory. */
export const offerLimits = {
  tools: 5_000,
  others: 10_000,
  nameLength: 256,
  itemLength: 128 * 1024,
  totalLength: 8 * 1024 * 1024,
  instructionsLength: 64 * 1024,
  nodes: 20_000,
  depth: 48,
} as const;

const MAX_PROBLEMS = 20;

/** Leaves out the parts of an offer that are too large, too deep or malformed, and reports them in `problems`. */
export function limitOffer(offer: ServerOffer): { readonly offer: ServerOffer; readonly problems: readonly string[] } {
  const problems: string[] = [];
  let room: number = offerLimits.totalLength;

  /** Why an item is left out. An accepted item reduces the room. */
  function findProblem(item: unknown, check?: (item: Record<string, unknown>) => string | undefined) {
    if (!isRecord(item)) return "is not an object";
    const size = measureSize(item);
    if (size === undefined) return "is too large or too deep";
    const problem = check?.(item);
    if (problem !== undefined) return problem;
    if (size > room) return "exceeds the limit on the whole offer";
    room -= size;
    return undefined;
  }

  function limitList(
    what: string,
    items: unknown,
    limit: number,
    check?: typeof checkOfferedTool,
  ): readonly JsonObject[] {
    const all: readonly unknown[] = Array.isArray(items) ? items : [];
    if (all.length > limit) problems.push(`it offers ${all.length} ${what}s; only the first ${limit} were taken`);
    return all.slice(0, limit).filter((item, at): item is JsonObject => {
      const problem = findProblem(item, check);
      const label = isRecord(item) && typeof item.name === "string" ? quoteName(item.name) : `number ${at + 1}`;
      if (problem !== undefined) problems.push(`${what} ${label} was left out: it ${problem}`);
      return problem === undefined;
    });
  }

  function limitPart(what: string, part: JsonObject): JsonObject {
    const problem = findProblem(part);
    if (problem !== undefined) problems.push(`its ${what} was left out: it ${problem}`);
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
  const listed = problems.slice(0, MAX_PROBLEMS);
  if (problems.length > listed.length) listed.push(`and ${problems.length - listed.length} more were left out`);
  return { offer: bounded, problems: listed };
}

/** Why a tool of an offer is malformed. Undefined if it is not. */
export function checkOfferedTool(tool: Record<string, unknown>): string | undefined {
  const { name, title, description, inputSchema, outputSchema, annotations } = tool;
  if (typeof name !== "string" || name === "") return "has no name";
  if (name.length > offerLimits.nameLength) return `has a name of ${name.length} characters`;
  if (!isRecord(inputSchema)) return "has no inputSchema";
  for (const [field, value] of Object.entries({ title, description }))
    if (value !== undefined && typeof value !== "string") return `has a ${field} that is not a string`;
  for (const [field, value] of Object.entries({ outputSchema, annotations }))
    if (value !== undefined && !isRecord(value)) return `has an ${field} that is not an object`;
  return undefined;
}

/** The characters of all keys and texts, or undefined beyond a limit. Does not recurse, so that any depth is safe. */
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
