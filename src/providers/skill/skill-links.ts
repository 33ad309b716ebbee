import { posix } from "node:path";
import { quoteName } from "../../core/names.ts";
import type { SkillFile, SkillProblem } from "./skill-file.ts";

const LINK = /\]\(([^)\s]{1,300})(?:\s[^)]{0,200})?\)/g;

/** Links of the body to files that the folder does not have, or outside of it. For lint: it takes time. */
export function findBrokenLinks({ body, bodyLine }: SkillFile, files: Iterable<string>): readonly SkillProblem[] {
  const known = new Set([...files].flatMap((file) => [file, ...listParents(file)]));
  const found = new Map<string, SkillProblem>();
  for (const [at, line] of body.split("\n").entries())
    for (const [, target = ""] of line.matchAll(LINK)) {
      const path = posix.normalize(decodeLink(target.replace(/[#?].*$/, ""))).replace(/\/$/, "");
      if (/^(?:[a-z][a-z0-9+.-]*:|\/|$)/i.test(target) || path === "." || known.has(path) || found.has(path)) continue;
      const isOutside = path.startsWith("../");
      const message = `${quoteName(path)} ${isOutside ? "is outside of the skill's folder" : "does not exist"}`;
      found.set(path, { rule: "file-link", level: "warning", line: bodyLine + at, message });
    }
  return [...found.values()];
}

function listParents(file: string): readonly string[] {
  const parent = posix.dirname(file);
  return parent === "." ? [] : [parent, ...listParents(parent)];
}

function decodeLink(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
