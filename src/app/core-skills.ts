import { join } from "node:path";
import type { SkillRoot } from "../providers/skill/skill-folders.ts";
import { findPackageFolder } from "./system-runtime.ts";

/** The skills that come with this package. Last in a list of roots, so that a skill of the same name replaces them. */
export const findCoreSkills = (): SkillRoot => ({
  folder: join(findPackageFolder(), "skills/core"),
  source: "core",
  trusted: true,
});
