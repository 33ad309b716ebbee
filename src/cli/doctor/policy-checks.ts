import { stat } from "node:fs/promises";
import type { Config } from "../../config/schema.ts";
import { formatCount } from "../../core/display-text.ts";
import { findIdlePatterns, matchesGlob } from "../../core/name-patterns.ts";
import { didYouMean } from "../../core/nearest.ts";
import { hotListSeed } from "../../core/surface-choice.ts";
import { listUnaskedServers, mayFitUnlisted } from "../../workspace/unlisted-actions.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { listWorldActors } from "../commands/worlds.ts";
import { type DoctorCheck, fail, ok, warn } from "./environment-checks.ts";

const FAILING_TODO = "Correct the name. A rule that fails counts as true, so it objects to every call that it reaches.";
const ALWAYS_TODO = "Narrow its condition under policy.rules, or remove it. `qm explain <action>` shows what it does.";

/** Finds rules that cannot do what they were written for. */
export function checkRules({ quartermaster, servers, config }: Workspace): readonly DoctorCheck[] {
  const isComplete = listUnaskedServers(servers.list(), config).length === 0;
  return quartermaster.ruleProblems(isComplete).map(({ kind, message }) => {
    if (kind === "always") return warn("rule", message, ALWAYS_TODO);
    return kind === "field" ? fail("rule", message, FAILING_TODO) : warn("rule", message, FAILING_TODO);
  });
}

/** Finds patterns that fit nothing. One that may fit tools of a server that was never asked is not reported. */
export function checkPatterns({ quartermaster, config, servers }: Workspace): readonly DoctorCheck[] {
  const unasked = listUnaskedServers(servers.list(), config);
  const mayFit = (pattern: string) => mayFitUnlisted(pattern, unasked, config);
  const actions = quartermaster.inventory();
  const named = actions.map((action) => ({ ...action, entry: action.name.slice(`${action.category}__`.length) }));
  const actionPatterns = listActionPatterns(config).flatMap(([place, pattern]) =>
    findIdlePatterns(mayFit(pattern) ? [] : [pattern], named).map((idle) => ({ place, what: "action", ...idle })),
  );
  const tags = new Set(actions.flatMap((action) => action.tags));
  const missingTags = config.policy.requireTags.filter((tag) => !tags.has(tag) && unasked.length === 0);
  return [
    ...quartermaster.policyWarnings(mayFit),
    ...[...actionPatterns, ...findIdle(listServerPatterns(config), Object.keys(config.servers), "server")].map(
      formatIdle,
    ),
    ...findIdle(listActorPatterns(config), Object.keys(config.actors), "actor").map(formatIdle),
    ...servers.list().flatMap(({ spec, state }) => {
      if (state !== "known") return [];
      const offered = servers.manifests.offer(spec.name)?.tools.map((tool) => tool.name) ?? [];
      const place = `servers.${spec.name}.tools`;
      return findIdle(
        spec.tools.map(({ match }) => [place, match]),
        offered,
        "tool of it",
      ).map(formatIdle);
    }),
    ...missingTags.map((tag) => `policy.require_tags lists ${JSON.stringify(tag)}, which no action has`),
  ].map((message) => warn("pattern", message, "Correct it: it has no effect. `qm list` shows the names."));
}

/** Counts the actions and actors of each world, or says which folder, actions or actors it lacks. */
export async function checkWorlds({ quartermaster, config, skillRoots }: Workspace): Promise<readonly DoctorCheck[]> {
  const filled = quartermaster.inventory().flatMap(({ worlds = [] }) => worlds);
  const found = await Promise.all(
    Object.keys(config.worlds).map(async (name) => {
      const folders = skillRoots.filter(({ world }) => world === name).map(({ folder }) => folder);
      const areFolders = await Promise.all(folders.map(isFolder));
      const missing = folders.filter((_folder, at) => areFolders[at] === false);
      const actions = filled.filter((world) => world === name).length;
      const actors = listWorldActors(config, name).length;
      const problems = [
        ...missing.map((folder) =>
          warn("world", `${name}: ${folder} is not a folder`, `Create it, or correct worlds.${name}.skills.`),
        ),
        ...(actions > 0
          ? []
          : [warn("world", `${name}: no action belongs to it`, `Add skills or actions to worlds.${name}.`)]),
        ...(actors > 0
          ? []
          : [warn("world", `${name}: no actor is in it`, `Set world: ${name}, or actors.<name>.world.`)]),
      ];
      const counts = `${formatCount(actions, "action")}, ${formatCount(actors, "actor")}`;
      return problems.length > 0 ? problems : [ok("world", `${name}: ${counts}`)];
    }),
  );
  return found.flat();
}

const isFolder = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => undefined))?.isDirectory() ?? false;

type Pattern = readonly [place: string, pattern: string];
type IdlePattern = { readonly place: string; readonly pattern: string; readonly what: string; readonly near: string };

function findIdle(patterns: readonly Pattern[], names: readonly string[], what: string): readonly IdlePattern[] {
  return patterns
    .filter(([, pattern]) => !names.some((name) => matchesGlob(pattern, name)))
    .map(([place, pattern]) => ({ place, pattern, what, near: didYouMean(pattern, names) }));
}

const formatIdle = ({ place, pattern, what, near }: IdlePattern): string =>
  `${place} lists ${JSON.stringify(pattern)}, which no ${what} fits${near}`;

/** The patterns over action names, besides those of the policy. */
function listActionPatterns({ surface, actors, worlds, search, routing }: Config): readonly Pattern[] {
  const listSurface = (place: string, choice: Partial<Config["surface"]> = {}): readonly Pattern[] => [
    ...(choice.alwaysLoadedPatterns ?? []).map((pattern) => [`${place}.always_loaded_patterns`, pattern] as const),
    ...(choice.hotListSeed ?? [])
      .filter((pattern) => !hotListSeed.includes(pattern))
      .map((pattern) => [`${place}.hot_list_seed`, pattern] as const),
  ];
  const listGroups = (place: string, groups: Config["search"]["directory"]["groups"]): readonly Pattern[] =>
    groups.flatMap(({ name, actions }) => actions.map((pattern) => [`${place} ${name}`, pattern] as const));
  return [
    ...listSurface("surface", surface),
    ...Object.entries(actors).flatMap(([name, actor]) => listSurface(`actors.${name}.surface`, actor.surface)),
    ...listGroups("search.directory.groups", search.directory.groups),
    ...Object.entries(worlds).flatMap(([world, { groups }]) => listGroups(`worlds.${world}.groups`, groups)),
    ...routing.rules.flatMap(({ name, event }) =>
      event?.startsWith(CALL_EVENT) ? [[`routing.rules ${name}`, event.slice(CALL_EVENT.length)] as const] : [],
    ),
  ];
}

const CALL_EVENT = "tool_call:";
const ACTOR_SOURCE = "actor:";

function listActorPatterns({ routing }: Config): readonly Pattern[] {
  return routing.rules.flatMap(({ name, source }) =>
    source?.startsWith(ACTOR_SOURCE) ? [[`routing.rules ${name}`, source.slice(ACTOR_SOURCE.length)] as const] : [],
  );
}

function listServerPatterns({ gateway }: Config): readonly Pattern[] {
  return Object.entries(gateway.profiles).flatMap(([name, { passThrough }]) =>
    passThrough.map((pattern) => [`gateway.profiles.${name}.pass_through`, pattern] as const),
  );
}
