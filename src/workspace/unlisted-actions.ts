import type { Config } from "../config/schema.ts";
import { matchesGlob } from "../core/name-patterns.ts";
import { didYouMean } from "../core/nearest.ts";
import { hotListSeed } from "../core/surface-choice.ts";
import type { ServerView } from "../mcp/provider/mcp-servers.ts";

/** The file actions that `providers.file.read_only` leaves out. */
const writingActions = ["file__delete", "file__edit", "file__write"];

/** Their tags that no other action may have. */
const writingTags = ["tag:write", "tag:destructive"];

/** Whether a pattern may fit tools of the unasked servers, or file actions that are switched off. */
export function mayFitUnlisted(pattern: string, unasked: readonly string[], { providers }: Config): boolean {
  if (pattern.startsWith("tag:"))
    return unasked.length > 0 || (providers.file.readOnly && writingTags.includes(pattern));
  if (mayFitServers(pattern, unasked)) return true;
  return providers.file.readOnly && writingActions.some((name) => matchesGlob(pattern, name));
}

function mayFitServers(pattern: string, servers: readonly string[]): boolean {
  const [literal = ""] = pattern.split(/[*?]/, 1);
  return servers.some((server) => {
    const prefix = `mcp__${server}__`;
    return literal.startsWith(prefix) || (literal !== pattern && prefix.startsWith(literal));
  });
}

/** The servers whose tools are not known: never asked, or switched off. */
export function listUnaskedServers(servers: readonly ServerView[], config: Config): readonly string[] {
  const unasked = servers.filter(({ state, tools, withheld }) => state !== "known" && tools + withheld === 0);
  const disabled = Object.entries(config.servers).filter(([, { enabled }]) => !enabled);
  return [...unasked.map(({ spec }) => spec.name), ...disabled.map(([name]) => name)];
}

/** Leaves out problems with tools of unasked servers, and names the setting that switches a file action off. */
export function explainActorProblems(problems: readonly string[], unasked: readonly string[], config: Config) {
  const listed = Object.values(config.actors).flatMap(({ tools }) => tools);
  const later = listed.filter((name) => mayFitServers(name, unasked));
  const off = config.providers.file.readOnly ? writingActions : [];
  const mentions = (problem: string, names: readonly string[]) =>
    names.some((name) => problem.includes(JSON.stringify(name)));
  return problems
    .filter((problem) => !mentions(problem, later))
    .map((problem) =>
      mentions(problem, off)
        ? `${problem.replace(/; did you mean .*$/, "")}: providers.file.read_only is true`
        : problem,
    );
}

/** Names in configured hot lists that no action has. The host may register its tools later. */
export function findUnknownSeeds(
  { surface, actors }: Config,
  listNames: () => readonly string[],
  mayFit: (name: string) => boolean,
): readonly string[] {
  const ofActors = Object.entries(actors).map(([name, actor]) => {
    return { key: `actors.${name}.surface`, names: actor.surface?.hotListSeed ?? [] };
  });
  const seeds = [{ key: "surface", names: surface.hotListSeed }, ...ofActors].flatMap(({ key, names }) =>
    names.filter(isFixedName).map((name) => ({ key, name })),
  );
  if (seeds.length === 0) return [];
  const known = listNames();
  return seeds
    .filter(({ name }) => !known.includes(name) && !mayFit(name))
    .map(({ key, name }) => `${key}.hot_list_seed lists "${name}", which no action fits${didYouMean(name, known)}`);
}

const isFixedName = (name: string): boolean =>
  name.includes("__") && !name.startsWith("tool__") && !hotListSeed.includes(name);
