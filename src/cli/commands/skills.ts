import { existsSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import type { Command } from "commander";
import { summarizeAction } from "../../core/action.ts";
import { escapeUnsafe, formatCount } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn, omitUndefined } from "../../core/json.ts";
import type { LocatedProblem, SkillRoot } from "../../providers/skill/skill-folders.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace } from "../context.ts";
import { createUsageError, exitCodes } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";
import { addSkillsNewCommand } from "./skills-new.ts";
import { addRunCommands } from "./skills-runs.ts";
import {
  addSkillsTrustCommand,
  formatMissingDigest,
  requireSkill,
  reviewSkills,
  toSkillFacts,
} from "./skills-trust.ts";

const DIGEST_LENGTH = 12;
// The help of all commands loads this file, and should not load the YAML parser.
const importFolders = () => import("../../providers/skill/skill-folders.ts");
const importMethods = () => import("../../providers/skill/method/method-file.ts");

export function addSkillsCommand(program: Command, context: Context): void {
  const skills = program
    .command("skills")
    .helpCommand(false)
    .summary("list, show, check, create and trust skills")
    .description("Manage skills: folders with a SKILL.md, offered to models as actions.")
    .addHelpText(
      ...examples("qm skills list", "qm skills lint", "qm skills new release-notes", "qm skills trust triage"),
    );

  skills
    .command("list")
    .summary("list the skills")
    .description("List the skills of all folders, whether they are trusted, and the files that cannot be used.")
    .action(inWorkspace(context, "ledger", runSkillsList));

  skills
    .command("show")
    .summary("show a skill, whether it is trusted, its files and its digest")
    .argument("<name>", "the skill's name")
    .action(inWorkspace(context, "ledger", runSkillsShow));

  skills
    .command("lint")
    .summary("check skills against the format")
    .description("Check SKILL.md files against the Agent Skills format. Exits with 1 if there are findings.")
    .argument("[folders...]", "a skill, or folders with skills; default: all folders that are searched")
    .addHelpText(...examples("qm skills lint", "qm skills lint ./my-skill --json"))
    .action(inWorkspace(context, "ledger", runSkillsLint));

  addSkillsNewCommand(skills, context);
  addSkillsTrustCommand(skills, context);
  addRunCommands(skills, context);
}

async function runSkillsList({ out, io }: Context, workspace: Workspace): Promise<void> {
  const { reviewed, problems } = await reviewSkills(workspace);
  const errors = problems.filter(({ level }) => level === "error");
  if (out.isJson) return out.json({ skills: reviewed.map(toSkillFacts), problems: errors });
  if (reviewed.length > 0) {
    const rows = reviewed.map(({ skill, review }) => [
      skill.name,
      skill.type,
      skill.root.source,
      review.state,
      review.digest?.slice(0, DIGEST_LENGTH) ?? "none",
      summarizeAction(skill),
    ]);
    out.table(["skill", "type", "source", "trust", "digest", "what it does"], rows);
  }
  if (reviewed.every(({ skill }) => skill.root.source === "core"))
    out.line("There are no skills of your own. `qm skills new <name>` creates one.");
  if (reviewed.some(({ review }) => review.state !== "trusted"))
    out.line(out.dim("`qm skills trust` shows the skills that a person must decide on."));
  if (getOwn(workspace.models, "default") === undefined)
    out.line(
      out.dim("Skills of the types llm and method need a language model: add models.default to quartermaster.yaml."),
    );
  for (const problem of errors) out.note(`qm: warning: ${formatProblem(problem, io.cwd)}`);
}

async function runSkillsShow({ out }: Context, workspace: Workspace, name: string): Promise<void> {
  const found = requireSkill((await reviewSkills(workspace)).reviewed, name);
  const { skill, review } = found;
  const sizes = [...review.sizes].map(([path, bytes]) => ({ path, bytes }));
  const { state, reason, added, removed, changed } = review;
  const { describeMethod } = await importMethods();
  const method = describeMethod(skill);
  if (out.isJson) {
    const changes = state === "changed" ? { added, removed, changed } : {};
    const more = { files: sizes, ...omitUndefined({ reason, method }), ...changes, body: skill.body };
    return out.json({ ...toSkillFacts(found), ...more });
  }
  const facts = [
    ["type", skill.type],
    ["source", skill.root.source],
    ["trust", reason === undefined ? state : `${state}: ${reason}`],
    ["folder", skill.folder],
    ["digest", review.digest ?? formatMissingDigest(review)],
    ["files", sizes.map(({ path, bytes }) => `${path} (${formatCount(bytes, "byte")})`).join(", ")],
  ];
  out.line(out.bold(escapeUnsafe(skill.name)), escapeUnsafe(skill.description), "");
  out.table(["", ""], facts);
  if (method !== undefined) {
    const rows = method.steps.map(({ title, tools }, at) => [String(at + 1), title, tools.join(", ") || "none"]);
    out.line("");
    out.table(["step", "title", "tools"], rows);
  }
  out.line("", escapeUnsafe(skill.body.trim()));
}

async function runSkillsLint(context: Context, { skillRoots }: Workspace, folders: readonly string[]): Promise<void> {
  const { out, io } = context;
  const given = folders.map((folder): SkillRoot => ({ folder: resolve(io.cwd, folder), trusted: true, source: "" }));
  const missing = given.find(({ folder }) => !existsSync(folder));
  if (missing !== undefined) throw new QmError("not_found", `there is no folder ${missing.folder}`);
  // The skills that come with this package are checked by its tests.
  const searched = skillRoots.filter(({ source }) => source !== "core");
  if (given.length === 0 && searched.length === 0)
    throw createUsageError("no folder was given, and none is searched", "Give a folder: `qm skills lint <folder>`.");
  const { checkToolFile } = await import("../../providers/skill/code/tool-file.ts");
  const { loadSkills, readSkillContents } = await importFolders();
  const { findBrokenLinks } = await import("../../providers/skill/skill-links.ts");
  const { findMethodTools } = await importMethods();
  const { skills, problems } = await loadSkills(given.length > 0 ? given : searched);
  const findings = [...problems];
  for (const skill of skills) {
    const file = join(skill.folder, skill.fileName);
    const { files, problems } = await readSkillContents(skill);
    const text = new TextDecoder().decode(files.get(skill.fileName));
    const checks = [checkToolFile(skill, files.keys()), findMethodTools(skill, skills, text)];
    const found = [...problems, ...checks.flat(), ...findBrokenLinks(skill, files.keys())];
    findings.push(...found.map((problem) => ({ file, ...problem })));
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
