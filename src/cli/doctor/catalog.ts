import { stat } from "node:fs/promises";
import { messageOf } from "../../core/errors.ts";
import { wireOf } from "../../surface/wire-names.ts";
import { openWorkspace, type Workspace, type WorkspaceOptions } from "../../workspace.ts";
import { counted } from "../text.ts";
import { checkApprovals } from "./approvals.ts";
import { type Check, fail, ok, warn } from "./check.ts";
import type { Places } from "./config.ts";
import { checkServers } from "./servers.ts";

/** What the configuration gives: providers, actors, names. */
export async function checkCatalog(options: WorkspaceOptions, { fileRoot }: Places): Promise<readonly Check[]> {
  const problems: string[] = [];
  try {
    const workspace = await openWorkspace({
      ...options,
      purpose: "looking",
      onProblem: (problem) => problems.push(problem),
    });
    try {
      const actors = checkActors(workspace);
      const told = new Set(actors.map(({ message }) => message));
      return [
        ...(await checkProviders(workspace, fileRoot)),
        ...checkReach(workspace),
        ...problems
          .filter((problem) => !told.has(problem))
          .map((problem) => warn("provider", problem, "Mend what it names; the rest works.")),
        ...actors,
        ...checkServers(workspace),
        ...checkApprovals(workspace),
        checkWireNames(workspace),
        await checkSearch(workspace),
      ];
    } finally {
      await workspace.close();
    }
  } catch (thrown) {
    return [fail("actions", messageOf(thrown), "Mend the configuration.")];
  }
}

async function checkProviders({ quartermaster, config }: Workspace, fileRoot: string): Promise<readonly Check[]> {
  if (!config.providers.file.enabled)
    return [warn("provider", "none: there is nothing to call", "Set providers.file.enabled to true.")];
  const isFolder = await stat(fileRoot).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
  if (!isFolder)
    return [fail("provider", `file: ${fileRoot} is not a folder`, "Make it, or change providers.file.root.")];
  const what = config.providers.file.read_only ? ", reading only" : "";
  const counts = new Map<string, number>();
  for (const { category } of quartermaster.inventory()) counts.set(category, (counts.get(category) ?? 0) + 1);
  return [...counts].map(([category, count]) =>
    ok("provider", `${category}: ${counted(count, "action")}${category === "file" ? ` in ${fileRoot}${what}` : ""}`),
  );
}

/** Said, not looked up: it holds for every workspace that opens. */
function checkReach({ config }: Workspace): readonly Check[] {
  if (!config.providers.file.enabled) return [];
  return [ok("reach", "file actions reach neither the configuration nor the ledger")];
}

function checkActors({ quartermaster, config }: Workspace): readonly Check[] {
  const unknown = quartermaster
    .actorProblems()
    .map((problem) => fail("actors", problem, "Correct the name under actors; `qm list` shows the names."));
  if (unknown.length > 0) return unknown;
  return Object.keys(config.actors).map((actor) => {
    const { length } = quartermaster.names({ actor });
    return length === 0
      ? warn("actor", `${actor} sees no action`, `\`qm explain <action> --actor ${actor}\` shows what hides one.`)
      : ok("actor", `${actor} sees ${counted(length, "action")}`);
  });
}

/** A name that no provider of models takes as it is travels under another one, which models read less well. */
function checkWireNames({ quartermaster }: Workspace): Check {
  const names = quartermaster.inventory().map(({ name }) => name);
  const rewritten = names.filter((name) => wireOf(name) !== name);
  if (rewritten.length === 0) return ok("names", "every name can go to a model as it is");
  return warn(
    "names",
    `${rewritten.length} of ${names.length} go to models under another name, such as ${rewritten[0]}`,
    "Give them at most 64 letters, digits, _ and -, where they are yours.",
  );
}

async function checkSearch({ quartermaster, config }: Workspace): Promise<Check> {
  if (!config.search.enabled) return ok("search", "switched off");
  const { class: kind } = config.search.embedder;
  if (kind === undefined || kind === null) return ok("search", "by words");
  await quartermaster.embeddings.settled();
  const { state, reason = "not all vectors are there", hint } = quartermaster.embeddings.status();
  if (state === "ready") return ok("search", `by words and by meaning (${kind})`);
  return warn("search", `by words only: ${reason}`, hint ?? "Run `qm embeddings build`.");
}
