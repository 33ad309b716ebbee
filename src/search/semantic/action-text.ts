import { hash } from "node:crypto";
import { type Action, fingerprint } from "../../core/action.ts";
import { clip, isRecord } from "../../core/json.ts";
import type { ActionName } from "../../core/names.ts";

const TEXT_LIMIT = 2_000;
// Leaves room for the parameters.
const DESCRIPTION_LIMIT = 1_200;
const PARAMETER_LIMIT = 200;

/** The text to embed: the name in words, the description, the tags and the parameters. */
export function toEmbeddedText({ name, description, tags, inputSchema }: Action): string {
  const properties = isRecord(inputSchema.properties) ? Object.entries(inputSchema.properties) : [];
  const parameters = properties.map(([key, value]) => {
    const purpose = isRecord(value) && typeof value.description === "string" ? value.description : "";
    return clip(`${splitName(key)} ${purpose}`.trim(), PARAMETER_LIMIT);
  });
  const lines = [splitName(name), clip(description.trim(), DESCRIPTION_LIMIT), tags.join(", "), parameters.join("; ")];
  return clip(lines.filter((line) => line !== "").join("\n"), TEXT_LIMIT);
}

/** `mcp__github__createIssue` → mcp github create issue. */
const splitName = (name: string): string =>
  name
    .replace(/(\p{Ll})(\p{Lu})/gu, "$1 $2")
    .replace(/[^\p{L}\p{N}\p{M}]+/gu, " ")
    .trim()
    .toLowerCase();

const hashCache = new WeakMap<Action, string>();

/** The hash of the embedded text. Other changes of an action do not change it. */
export function hashActionText(action: Action): string {
  const known = hashCache.get(action) ?? hash("sha256", toEmbeddedText(action), "hex");
  hashCache.set(action, known);
  return known;
}

export interface CatalogContents {
  readonly fingerprint: string;
  /** By name, sorted. */
  readonly hashes: ReadonlyMap<ActionName, string>;
  /** One action with this text for each hash. */
  readonly samples: ReadonlyMap<string, Action>;
}

export function hashCatalog(actions: readonly Action[]): CatalogContents {
  const sorted = actions.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const hashes = new Map(sorted.map((action) => [action.name, hashActionText(action)]));
  const samples = new Map(sorted.map((action) => [hashActionText(action), action]));
  return { fingerprint: fingerprint([...hashes]).slice(0, 32), hashes, samples };
}
