import type { Config } from "../config/schema.ts";
import { matchesGlob } from "../core/name-patterns.ts";
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
