import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type Command, Option } from "commander";
import { QmError } from "../../core/errors.ts";
import type { SkillType } from "../../providers/skill/skill-file.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";
import { formatTrustStep } from "./skills-trust.ts";

const DEFAULT_FOLDER = ".agents/skills";

type NewOptions = { readonly folder?: string; readonly type: SkillType; readonly language?: "mjs" | "py" };

export function addSkillsNewCommand(skills: Command, context: Context): void {
  skills
    .command("new")
    .summary("create a skill to start from")
    .argument("<name>", "lower-case letters, digits and hyphens")
    .option("--folder <path>", `where to create it; default: the first configured folder, or ${DEFAULT_FOLDER}`)
    .addOption(new Option("--type <type>", "what kind of skill").choices(Object.keys(FIELDS)).default("instruction"))
    .addOption(
      new Option("--language <language>", "of the program of a code skill; default: mjs").choices(["mjs", "py"]),
    )
    .addHelpText(
      ...examples(
        "qm skills new release-notes",
        "qm skills new count-words --type code --language py",
        "qm skills new triage --folder team/skills",
      ),
    )
    .action(inWorkspace(context, "ledger", runSkillsNew));
}

async function runSkillsNew(
  { out, io }: Context,
  { skillRoots }: Workspace,
  name: string,
  { folder, type, language }: NewOptions,
): Promise<void> {
  if (language !== undefined && type !== "code")
    throw createUsageError("--language is for skills of the type code", "Add --type code, or leave it out.");
  const own = skillRoots.find(({ source }) => source === "configured" || source === "project");
  const parent = resolve(io.cwd, folder ?? own?.folder ?? DEFAULT_FOLDER);
  const path = join(parent, name, "SKILL.md");
  const files = createSkillFiles(name, type, language ?? "mjs");
  const { parseSkillFile } = await import("../../providers/skill/skill-file.ts");
  const wrong = parseSkillFile(files["SKILL.md"], name).problems.find(({ rule }) => rule === "name");
  if (wrong !== undefined) throw createUsageError(wrong.message, "Choose a name such as release-notes.");
  if (existsSync(path)) throw new QmError("conflict", `${path} already exists; nothing was changed`);
  await mkdir(join(parent, name), { recursive: true });
  for (const [file, text] of Object.entries(files)) await writeFile(join(parent, name, file), text, { flag: "wx" });
  const root = skillRoots.find((each) => each.folder === parent);
  const offer = `To offer it, add ${JSON.stringify(folder ?? parent)} to skills.folders in quartermaster.yaml.`;
  const world = root?.world === undefined ? "" : `${root.world}__`;
  const args = type === "instruction" ? "" : " --arg input=text";
  const trial = `Run it with \`qm invoke skill__${world}${name}${args}\`.`;
  const next = root === undefined ? [offer] : root.trusted ? [trial] : [formatTrustStep(name), trial];
  const written = Object.keys(files).map((file) => join(parent, name, file));
  const what = `Wrote ${written.join(" and ")}. Describe in SKILL.md what it does, and when to use it.`;
  out.answer({ written: path, files: written }, [what, ...next].join("\n"));
}

/** A skill that works, with text to replace. */
function createSkillFiles(name: string, type: SkillType, language: "mjs" | "py") {
  const program = type === "code" ? { [`tool.${language}`]: PROGRAMS[language] } : {};
  return { "SKILL.md": createSkillText(name, type), ...program };
}

const createSkillText = (name: string, type: SkillType): string => `---
name: ${name}
${type === "instruction" ? "" : `type: ${type}\n`}description: Say what it does in one sentence. Use when …
${FIELDS[type]}---

# ${name}

${BODIES[type]}`;

const FIELDS: Readonly<Record<SkillType, string>> = {
  instruction: "",
  llm: "inputs:\n  input: The text to work on.\n",
  code: "inputs:\n  input: The text to work on.\n",
  method:
    "inputs:\n  input: The task.\ntools: [infospace__create-note, infospace__load]\noutcomes: [success, needs_input]\nexports: [note]\n",
};

const BODIES: Readonly<Record<SkillType, string>> = {
  instruction: "1. The first step.\n2. The next step.\n",
  llm: "Summarize the text in three sentences.\n\n{{input}}\n",
  code: "Counts the words of a text. The program is in the file beside this one.\n",
  method:
    "If the task is not clear, end with the outcome `needs_input`.\n\n1. Find out what is asked.\n2. Store the result as a note, and export its handle as `note`.\n",
};

const PROGRAMS = {
  mjs: "export function tool({ input }) {\n  return { words: input.split(/\\s+/).filter(Boolean).length };\n}\n",
  py: 'def tool(input_value=None, **kwargs):\n    return {"words": len(str(input_value).split())}\n',
} as const;
