import { z } from "zod";
import { defineAction, type Provider } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { openRoot } from "../file/file-root.ts";
import { readText } from "../file/read.ts";
import { loadSkills, readSkillContents, type Skill, type SkillCache, type SkillRoot } from "./skill-folders.ts";

export interface SkillProviderOptions {
  /** A skill of an earlier root wins over one of the same name in a later root. */
  readonly roots: readonly SkillRoot[];
  /** Called with each file that cannot be used. */
  readonly onProblem: (problem: string) => void;
  /** How often the folders are read again while they are watched. */
  readonly pollMs?: number;
}

/** Instructions up to this length are shown whole. The format asks for less than 5,000 tokens, about 20,000 characters. */
const RESULT_CHARS = 64 * 1024;

/** Folders with a SKILL.md as actions. */
export function skillProvider({ roots, onProblem, pollMs = 2_000 }: SkillProviderOptions): Provider {
  const cache: SkillCache = new Map();
  let listed: readonly Skill[] | undefined;
  let reported = new Set<string>();

  /** Reports problems that the last reading of the folders did not have. */
  function report(problems: ReadonlySet<string>): void {
    for (const problem of problems) if (!reported.has(problem)) onProblem(problem);
    reported = new Set(problems);
  }

  return {
    category: "skill",
    capability: "Get instructions for special tasks from people who know how to do them.",
    async list() {
      const { skills, problems } = await loadSkills(roots, cache);
      listed = skills;
      const unusable = problems
        .filter(({ level }) => level === "error")
        .map(({ file, line, message }) => `${file}:${line} ${message}`);
      const isInstruction = ({ type }: Skill) => type === "instruction";
      const others = skills
        .filter((skill) => !isInstruction(skill))
        .map(({ folder, fileName, type }) => `${folder}/${fileName}: skills of the type ${type} cannot be run yet`);
      report(new Set([...unusable, ...others]));
      return skills.filter(isInstruction).map(defineInstruction);
    },
    watch(onChange) {
      let checking = Promise.resolve();
      // Polled, because links and network drives send no events.
      const timer = setInterval(() => {
        checking = checking.then(async () => {
          const { skills } = await loadSkills(roots, cache);
          // A file that did not change is the same object.
          const isSame = skills.length === listed?.length && skills.every((skill, at) => skill === listed?.[at]);
          if (listed !== undefined && !isSame) onChange();
        });
      }, pollMs).unref();
      return () => clearInterval(timer);
    },
  };
}

const defineInstruction = (skill: Skill): Action =>
  defineAction("skill", {
    entry: skill.name,
    description: skill.description,
    effect: "read",
    idempotent: true,
    tags: ["skill", skill.type, skill.root.source],
    resultChars: RESULT_CHARS,
    input: z.strictObject({
      file: z.string().min(1).optional().describe("Read this file of the skill instead of its instructions."),
      offset: z.int().min(0).default(0).describe("First line of the file, counted from 0."),
    }),
    run: ({ file, offset }, { signal }) =>
      file === undefined ? readBody(skill) : readFile(skill, file, offset, signal),
  });

const TAGS = /<(?=\/?skill_(?:content|files)\b)/gi;

/** The instructions as text, in tags, so that a model can tell them from other results. They cannot close the tags. */
async function readBody(skill: Skill): Promise<string> {
  const files = (await readSkillContents(skill)).files.filter((file) => file !== skill.fileName);
  const list = files.length === 0 ? "" : `\n<skill_files>\n${files.join("\n")}\n</skill_files>\n`;
  return `<skill_content name="${skill.name}">\n${skill.body.trim().replace(TAGS, "&lt;")}\n${list}</skill_content>`;
}

async function readFile(skill: Skill, file: string, offset: number, signal: AbortSignal) {
  const { files } = await readSkillContents(skill);
  if (!files.includes(file)) {
    const message = `the skill ${skill.name} has no file ${quoteName(file)}${didYouMean(file, files)}`;
    throw new QmError("not_found", message, { hint: "Call the skill without `file` to see its files." });
  }
  const { path, content, lines, next_offset } = await readText(
    openRoot(skill.folder),
    { path: file, offset, limit: 2000, byte_offset: 0 },
    signal,
  );
  return { path, content, lines, next_offset };
}
