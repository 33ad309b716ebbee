import type { Command } from "commander";
import { escapeUnsafe } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace } from "../context.ts";
import { examples } from "../option-parsers.ts";

export function addWorldsCommand(program: Command, context: Context): void {
  const worlds = program
    .command("worlds")
    .helpCommand(false)
    .summary("list and show worlds")
    .description("Show worlds: named sets of skills and actions that only the actors in them see.")
    .addHelpText(...examples("qm worlds list", "qm worlds show minecraft"));

  worlds
    .command("list")
    .summary("list the worlds")
    .description("List the worlds with the number of their skills and actions, and their actors.")
    .action(inWorkspace(context, "looking", runWorldsList));

  worlds
    .command("show")
    .summary("show the skills, actions, groups and actors of a world")
    .argument("<name>", "the world's name")
    .addHelpText(...examples("qm worlds show minecraft", "qm worlds show minecraft --json"))
    .action(inWorkspace(context, "looking", runWorldsShow));
}

async function runWorldsList({ out }: Context, workspace: Workspace): Promise<void> {
  const worlds = Object.keys(workspace.config.worlds).map((name) => collectWorld(workspace, name));
  if (out.isJson)
    return out.json({
      worlds: worlds.map(({ folders: _folders, groups: _groups, skills, actions, ...facts }) => {
        return { ...facts, skills: skills.length, actions: actions.length };
      }),
    });
  if (worlds.length === 0)
    return out.line(
      "No world is configured. Add one under worlds in quartermaster.yaml; docs/guides/use-worlds.md shows how.",
    );
  const rows = worlds.map(({ name, description = "", default: isDefault, skills, actions, actors }) => {
    const label = isDefault ? `${name} (default)` : name;
    return [label, String(skills.length), String(actions.length), actors.join(", "), description];
  });
  out.table(["world", "skills", "actions", "actors", "what it is for"], rows);
}

async function runWorldsShow({ out }: Context, workspace: Workspace, name: string): Promise<void> {
  const known = Object.keys(workspace.config.worlds);
  if (!known.includes(name)) {
    const message = `no world ${quoteName(name)}${didYouMean(name, known)}`;
    throw new QmError("not_found", message, { hint: "`qm worlds list` shows the names." });
  }
  const world = collectWorld(workspace, name);
  if (out.isJson) return out.json(world);
  const { description = "", default: isDefault, folders, skills, actions, groups, actors } = world;
  const others = actions.filter((action) => !skills.includes(action));
  out.line(out.bold(name), escapeUnsafe(description), "");
  out.table(
    ["", ""],
    [
      ["actors", actors.join(", ") || "none"],
      ["default", isDefault ? "yes: actors that name no world are in it" : "no"],
      ["folders", folders.join(", ") || "none"],
      ["groups", groups.map((group) => group.name).join(", ") || "none"],
    ],
  );
  for (const [title, listed] of [["skill", skills] as const, ["action", others] as const]) {
    if (listed.length === 0) continue;
    out.line();
    out.table(
      [title, "what it does"],
      listed.map((action) => [action.name, action.summary]),
    );
  }
  if (actions.length === 0) out.line("", "No action belongs to it. `qm doctor` shows what to correct.");
}

/** The skills of a world are also among its `actions`. */
function collectWorld({ quartermaster, config, skillRoots }: Workspace, name: string) {
  const { description, groups = [] } = getOwn(config.worlds, name) ?? {};
  const own = quartermaster.inventory().filter(({ worlds = [] }) => worlds.includes(name));
  const actions = own.map((action) => ({ name: action.name, category: action.category, summary: action.summary }));
  return {
    name,
    description,
    default: config.world === name,
    folders: skillRoots.filter(({ world }) => world === name).map(({ folder }) => folder),
    skills: actions.filter(({ category }) => category === "skill"),
    actions,
    groups,
    actors: listWorldActors(config, name),
  };
}

/** The actors in a world: those that name it, and for the default world also those that name none. */
export const listWorldActors = ({ actors, world }: Workspace["config"], name: string): readonly string[] =>
  Object.entries(actors)
    .filter(([, actor]) => (actor.world === undefined ? world : actor.world) === name)
    .map(([actor]) => actor);
