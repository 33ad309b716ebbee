import { hash } from "node:crypto";
import type { Action } from "../../core/action.ts";
import { fingerprint } from "../../core/action.ts";
import { clip, isRecord } from "../../core/json.ts";
import type { ActionName } from "../../core/names.ts";

const TEXT_LIMIT = 2_000;
// So that an endless description leaves room for the parameters.
const DESCRIPTION_LIMIT = 1_200;
const PARAMETER_LIMIT = 200;

/** What is embedded of an action: its name in words, its description, its tags, and what it asks for. */
export function toEmbeddedText({ name, description, tags, inputSchema }: Action): string {
  const properties = isRecord(inputSchema.properties) ? Object.entries(inputSchema.properties) : [];
  const parameters = properties.map(([key, value]) => {
    const purpose = isRecord(value) && typeof value.description === "string" ? value.description : "";
    return clip(`${splitName(key)} ${purpose}`.trim(), PARAMETER_LIMIT);
  });
  const lines = [splitName(name), clip(description.trim(), DESCRIPTION_LIMIT), tags.join(", "), parameters.join("; ")];
  return clip(lines.filter((line) => line !== "").join("\n"), TEXT_LIMIT);
}

/** `mcp__github__createIssue` → mcp github create issue: models know words, not spellings. */
function splitName(name: string): string {
  return name
    .replace(/(\p{Ll})(\p{Lu})/gu, "$1 $2")
    .replace(/[^\p{L}\p{N}\p{M}]+/gu, " ")
    .trim()
    .toLowerCase();
}

const known = new WeakMap<Action, string>();

/** Of the text that is embedded, so that what the text does not tell changes nothing. */
export function hashActionText(action: Action): string {
  let made = known.get(action);
  if (made === undefined) {
    made = hash("sha256", toEmbeddedText(action), "hex");
    known.set(action, made);
  }
  return made;
}

/** A catalog as its vectors see it: whose they are and what they are made of. */
export interface CatalogContents {
  readonly fingerprint: string;
  /** By name, sorted. */
  readonly hashes: ReadonlyMap<ActionName, string>;
  /** One action for each hash: its text is what the hash is of. */
  readonly samples: ReadonlyMap<string, Action>;
}

export function hashCatalog(actions: readonly Action[]): CatalogContents {
  const sorted = actions.toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const hashes = new Map(sorted.map((action) => [action.name, hashActionText(action)]));
  const samples = new Map(sorted.map((action) => [hashActionText(action), action]));
  return { fingerprint: fingerprint([...hashes]).slice(0, 32), hashes, samples };
}
