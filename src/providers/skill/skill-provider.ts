import type { Provider } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import type { ProgramHost } from "./code/program.ts";
import { createToolPrograms } from "./code/tool-programs.ts";
import { defineCodeSkill } from "./code-skill.ts";
import { defineInstructionSkill } from "./instruction-skill.ts";
import { defineLlmSkill } from "./llm-skill.ts";
import { defineMethodSkill } from "./method-skill.ts";
import type { SkillParts } from "./skill-action.ts";
import type { SkillType } from "./skill-file.ts";
import { loadSkills, type Skill, type SkillCache, type SkillRoot } from "./skill-folders.ts";
import type { SkillTrust } from "./skill-trust.ts";

export interface SkillProviderOptions extends Omit<SkillParts, "open" | "programs"> {
  readonly programHost: ProgramHost;
  /** A skill of an earlier root wins over one of the same name in a later root. */
  readonly roots: readonly SkillRoot[];
  readonly trust: SkillTrust;
  readonly onProblem: (problem: string) => void;
  /** How often the folders are read again while they are watched. */
  readonly pollMs?: number;
}

/** How the skills of each type become actions. */
const definitions: Readonly<Record<SkillType, (skill: Skill, parts: SkillParts) => Action>> = {
  instruction: defineInstructionSkill,
  llm: defineLlmSkill,
  code: defineCodeSkill,
  method: defineMethodSkill,
};

/** Folders with a SKILL.md as actions. */
export function skillProvider({
  roots,
  programHost,
  trust,
  pollMs = 2_000,
  onProblem,
  ...services
}: SkillProviderOptions): Provider {
  const programs = createToolPrograms(programHost);
  const parts: SkillParts = { ...services, programs, open: trust.open };
  const cache: SkillCache = new Map();
  let listed: readonly { readonly skill: Skill; readonly state: string }[] | undefined;
  let reported = new Set<string>();

  /** Reports problems that the last reading of the folders did not have. */
  function report(problems: ReadonlySet<string>): void {
    for (const problem of problems) if (!reported.has(problem)) onProblem(problem);
    reported = new Set(problems);
  }

  return {
    category: "skill",
    capability: "Run skills that people wrote for special tasks: instructions, prompts, programs and methods.",
    async list() {
      const { skills, problems } = await loadSkills(roots, cache);
      await trust.refresh(skills);
      listed = skills.map((skill) => ({ skill, state: trust.getState(skill) }));
      const unusable = problems
        .filter(({ level, rule }) => level === "error" || rule === "duplicate")
        .map(({ file, line, message }) => `${file}:${line} ${message}`);
      report(new Set(unusable));
      return skills.map((skill) => trust.guard(skill, definitions[skill.type](skill, parts)));
    },
    watch(onChange) {
      let isChecking = false;
      async function check(): Promise<void> {
        const { skills } = await loadSkills(roots, cache);
        await trust.refresh(skills);
        // A file that did not change is the same object.
        const isSame = skills.every((skill, at) => {
          const before = listed?.[at];
          return skill === before?.skill && trust.getState(skill) === before.state;
        });
        if (listed !== undefined && (!isSame || skills.length !== listed.length)) onChange();
      }
      // Polled, because links and network drives send no events.
      const timer = setInterval(() => {
        if (isChecking) return;
        isChecking = true;
        // A call that needs the store reports why it cannot be read.
        void check()
          .catch(() => undefined)
          .finally(() => {
            isChecking = false;
          });
      }, pollMs).unref();
      return () => clearInterval(timer);
    },
    close: programs.close,
  };
}
