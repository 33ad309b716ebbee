import { opendir } from "node:fs/promises";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { editDistance } from "../../core/nearest.ts";
import type { Place } from "./confine.ts";
import { type Folder, inFolder } from "./folder.ts";
import { isTemporaryName } from "./temporary.ts";

const SUGGESTIONS = 8;
const CONSIDERED = 1000;
/** Names with more differences are all equally far. */
const DIFFERENCES = 16;

/** `not_found` for a place with missing parts, with what is there under a similar name. */
export async function notFound(place: Place): Promise<QmError> {
  const suggestions = await nearby(place);
  return new QmError("not_found", `${quoted(place.path)} does not exist`, {
    details: { suggestions },
    hint:
      suggestions.length > 0
        ? "Use one of the suggestions, or list the folder."
        : "List a folder above it to see what is there.",
  });
}

async function nearby(place: Place): Promise<readonly string[]> {
  const parts = place.path.split("/");
  const above = parts.slice(0, parts.length - place.missing.length);
  const names = await inFolder(place, namesIn).catch(() => []);
  return bySimilarity(place.missing[0] ?? "", names)
    .slice(0, SUGGESTIONS)
    .map((name) => [...above, name].join("/"));
}

async function namesIn(folder: Folder): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await opendir(folder.at())) {
    if (!isTemporaryName(name) && !folder.kept.hides(folder.real, name)) names.push(name);
    if (names.length === CONSIDERED) break;
  }
  return names;
}

function bySimilarity(asked: string, names: readonly string[]): readonly string[] {
  const wanted = asked.toLowerCase();
  const distance = (name: string) => {
    const lower = name.toLowerCase();
    const holds = lower.includes(wanted) || wanted.includes(lower);
    return holds ? 1 : editDistance(wanted, lower, DIFFERENCES);
  };
  return names
    .map((name) => ({ name, distance: distance(name) }))
    .sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1))
    .map(({ name }) => name);
}
