import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import type { Command } from "commander";
import { summarizeAction } from "../../core/action.ts";
import { escapeUnsafe, formatCount } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import type { LocatedProblem, Skill, SkillRoot } from "../../providers/skill/skill-folders.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace } from "../context.ts";
import { createUsageError, exitCodes } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";

const DEFAULT_FOLDER = ".agents/skills";
// The help of all commands loads this file, and should not load the YAML parser.
const importFolders = () => import("../../providers/skill/skill-folders.ts");

export function addSkillsCommand(program: Command, context: Context): void {
  const skills = program
    .command("skills")
    .helpCommand(false)
    .summary("list, show, check and create skills")
    .description("Manage skills: folders with a SKILL.md, offered to models as actions.")
    .addHelpText(...examples("qm skills list", "qm skills lint", "qm skills new release-notes"));

  skills
    .command("list")
    .summary("list the skills")
    .description("List the skills of the configured folders, with the files that cannot be used.")
    .action(inWorkspace(context, "ledger", runSkillsList));

  skills
    .command("show")
    .summary("show a skill, its files and its digest")
    .argument("<name>", "the skill's name")
    .action(inWorkspace(context, "ledger", runSkillsShow));

  skills
    .command("lint")
    .summary("check skills against the format")
    .description("Check SKILL.md files against the Agent Skills format. Exits with 1 if there are findings.")
    .argument("[folders...]", "a skill, or folders with skills; default: the configured folders")
    .addHelpText(...examples("qm skills lint", "qm skills lint ./my-skill --json"))
    .action(inWorkspace(context, "ledger", runSkillsLint));

  skills
    .command("new")
    .summary("create a skill to start from")
    .argument("<name>", "lower-case letters, digits and hyphens")
    .option("--folder <path>", `where to create it; default: the first configured folder, or ${DEFAULT_FOLDER}`)
    .addHelpText(...examples("qm skills new release-notes", "qm skills new triage --folder team/skills"))
    .action(inWorkspace(context, "ledger", runSkillsNew));
}

async function runSkillsList({ out, io }: Context, { skillRoots }: Workspace): Promise<void> {
  const { loadSkills } = await importFolders();
  const { skills, problems } = await loadSkills(skillRoots);
  const errors = problems.filter(({ level }) => level === "error");
  if (out.isJson) return out.json({ skills: skills.map(toFacts), problems: errors });
  if (skills.length > 0) {
    const rows = skills.map((skill) => [skill.name, skill.type, skill.root.source, summarizeAction(skill)]);
    out.table(["skill", "type", "source", "what it does"], rows);
  } else if (skillRoots.length > 0) out.line("The configured folders have no skills.");
  else
    out.line(
      "No folder is configured. `qm skills new <name>` creates a skill; then list its folder in skills.folders.",
    );
  for (const problem of errors) out.note(`qm: warning: ${formatProblem(problem, io.cwd)}`);
}

const toFacts = ({ name, type, description, root, folder }: Skill) => ({
  name,
  type,
  source: root.source,
  description,
  folder,
});

async function runSkillsShow({ out }: Context, { skillRoots }: Workspace, name: string): Promise<void> {
  const { loadSkills, readSkillContents } = await importFolders();
  const { skills } = await loadSkills(skillRoots);
  const skill = skills.find((each) => each.name === name);
  if (skill === undefined) {
    const near = didYouMean(
      name,
      skills.map((each) => each.name),
    );
    throw new QmError("not_found", `no skill ${quoteName(name)}${near}`, { hint: "`qm skills list` shows the names." });
  }
  const { files, digest = null } = await readSkillContents(skill);
  if (out.isJson) return out.json({ ...toFacts(skill), digest, files, body: skill.body });
  const facts = [
    ["type", skill.type],
    ["source", skill.root.source],
    ["folder", skill.folder],
    ["digest", digest ?? "it has too many files"],
    ["files", files.join(", ")],
  ];
  out.line(out.bold(skill.name), escapeUnsafe(skill.description), "");
  out.table(["", ""], facts);
  out.line("", escapeUnsafe(skill.body.trim()));
}

async function runSkillsLint(context: Context, { skillRoots }: Workspace, folders: readonly string[]): Promise<void> {
  const { out, io } = context;
  const given = folders.map((folder): SkillRoot => ({ folder: resolve(io.cwd, folder), source: "" }));
  const missing = given.find(({ folder }) => !existsSync(folder));
  if (missing !== undefined) throw new QmError("not_found", `there is no folder ${missing.folder}`);
  if (given.length === 0 && skillRoots.length === 0)
    throw createUsageError("no folder was given, and none is configured", "Give a folder: `qm skills lint <folder>`.");
  const { loadSkills, readSkillContents } = await importFolders();
  const { skills, problems } = await loadSkills(given.length > 0 ? given : skillRoots);
  const findings = [...problems];
  for (const skill of skills) {
    const file = join(skill.folder, skill.fileName);
    findings.push(...(await readSkillContents(skill)).problems.map((problem) => ({ file, ...problem })));
  }
  findings.sort((a, b) => (a.file === b.file ? a.line - b.line : a.file < b.file ? -1 : 1));
  if (findings.length > 0) context.end(exitCodes.failed);
  if (out.isJson) return out.json({ skills: skills.length, findings });
  for (const finding of findings) out.line(formatProblem(finding, io.cwd));
  const rules = [...new Set(findings.map(({ rule }) => rule))].sort();
  const counts = rules.map((rule) => `${rule} ${findings.filter((each) => each.rule === rule).length}`);
  const summary =
    findings.length === 0 ? "no findings" : `${formatCount(findings.length, "finding")}: ${counts.join(", ")}`;
  out.line(`${formatCount(skills.length, "skill")}, ${summary}.`);
}

function formatProblem({ file, line, level, rule, message }: LocatedProblem, cwd: string): string {
  const inside = relative(cwd, file);
  const path = inside.startsWith("..") ? file : inside;
  return escapeUnsafe(`${path}:${line} ${level} ${rule}: ${message}`);
}

type NewOptions = { readonly folder?: string };

async function runSkillsNew({ out, io }: Context, workspace: Workspace, name: string, { folder }: NewOptions) {
  const parent = folder === undefined ? (workspace.skillRoots[0]?.folder ?? DEFAULT_FOLDER) : folder;
  const path = join(resolve(io.cwd, parent), name, "SKILL.md");
  const text = createSkillText(name);
  const { parseSkillFile } = await import("../../providers/skill/skill-file.ts");
  const wrong = parseSkillFile(text, name).problems.find(({ rule }) => rule === "name");
  if (wrong !== undefined) throw createUsageError(wrong.message, "Choose a name such as release-notes.");
  if (existsSync(path)) throw new QmError("conflict", `${path} already exists; nothing was changed`);
  await mkdir(join(resolve(io.cwd, parent), name), { recursive: true });
  await writeFile(path, text, { flag: "wx" });
  const isOffered = workspace.skillRoots.some((root) => root.folder === resolve(io.cwd, parent));
  const next = isOffered ? "" : `\nTo offer it, add ${JSON.stringify(parent)} to skills.folders in quartermaster.yaml.`;
  out.answer({ written: path }, `Wrote ${path}. Describe in it what to do, and when.${next}`);
}

const createSkillText = (name: string): string => `---
name: ${name}
description: Say what it does in one sentence. Use when …
---

# ${name}

1. The first step.
2. The next step.
`;
