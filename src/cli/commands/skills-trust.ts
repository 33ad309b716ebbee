import type { Command } from "commander";
import { escapeUnsafe, formatCount, quoteShellWord, toVisibleLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import type { Skill } from "../../providers/skill/skill-folders.ts";
import type { SkillReview } from "../../providers/skill/skill-trust.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { identifyApprover, requireApproval, requireYes } from "../approver.ts";
import { type Context, inWorkspace } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";

type TrustOptions = { readonly revoke?: boolean; readonly yes?: boolean };

export function addSkillsTrustCommand(skills: Command, context: Context): void {
  skills
    .command("trust")
    .summary("show what changed in a skill, and trust it")
    .description(
      "Show what a skill consists of and what changed since it was last trusted, and trust exactly that. Without a name, list the skills that wait for it.",
    )
    .argument("[name]", "the skill's name")
    .option("--revoke", "no longer trust it: its calls are refused until it is trusted again")
    .option("-y, --yes", "do not ask; to trust, only with an approver's token in QM_APPROVER_TOKEN")
    .addHelpText(...examples("qm skills trust", "qm skills trust triage", "qm skills trust triage --revoke"))
    .action(inWorkspace(context, "calls", runSkillsTrust));
}

export interface ReviewedSkill {
  readonly skill: Skill;
  readonly review: SkillReview;
}

/** Loads the skills of all roots and compares each with what is trusted. */
export async function reviewSkills({ quartermaster, skillRoots }: Workspace) {
  const { loadSkills } = await import("../../providers/skill/skill-folders.ts");
  const { skills, problems } = await loadSkills(skillRoots);
  const trust = await quartermaster.openSkillTrust();
  const reviewed: ReviewedSkill[] = [];
  for (const skill of skills) {
    // All files of all skills could take too much memory.
    const { files: _files, ...review } = await trust.review(skill);
    reviewed.push({ skill, review });
  }
  return { trust, reviewed, problems };
}

/** Finds a skill by its name or by that of its action. Throws `not_found` with the closest name. */
export function requireSkill(reviewed: readonly ReviewedSkill[], given: string): ReviewedSkill {
  const name = given.replace(/^skill__/, "");
  const found = reviewed.find(({ skill }) => skill.name === name);
  if (found !== undefined) return found;
  const names = reviewed.map(({ skill }) => skill.name);
  throw new QmError("not_found", `no skill ${quoteName(name)}${didYouMean(name, names)}`, {
    hint: "`qm skills list` shows the names.",
  });
}

/** A skill in `--json` output. */
export const toSkillFacts = ({ skill, review }: ReviewedSkill) => ({
  name: skill.name,
  type: skill.type,
  source: skill.root.source,
  trust: review.state,
  digest: review.digest ?? null,
  description: skill.description,
  folder: skill.folder,
});

async function runSkillsTrust(
  context: Context,
  workspace: Workspace,
  name: string | undefined,
  { revoke = false, yes }: TrustOptions,
): Promise<void> {
  const { out } = context;
  const { trust, reviewed } = await reviewSkills(workspace);
  if (name === undefined) {
    if (revoke) throw createUsageError("no skill was named", "Give its name: `qm skills trust <name> --revoke`.");
    return listWaiting(context, reviewed);
  }
  const { skill } = requireSkill(reviewed, name);
  // Read once more: what is shown is what is trusted.
  const review = await trust.review(skill);
  const found = { skill, review };
  const { needsPin } = await import("../../providers/skill/skill-trust.ts");
  if (!needsPin(skill)) {
    if (revoke)
      throw new QmError("conflict", `${name} is trusted because of where it is (${skill.root.source})`, {
        hint: "Hide it with a rule of the policy, or take its folder out of skills.folders.",
      });
    return out.answer(toSkillFacts(found), `${name} is trusted because of where it is (${skill.root.source}).`);
  }
  if (!revoke && review.state === "trusted" && review.pin !== undefined)
    return out.answer(toSkillFacts(found), `${name} is trusted already, with the digest ${review.digest}.`);

  if (!revoke) {
    showReview(context, found);
    const { comparePages, showFilesToApprover } = await import("../file-pages.ts");
    await showFilesToApprover(context, comparePages(review.files, await trust.readTrusted(skill)), yes);
  }
  const person = await identifyApprover(context, workspace);
  const done = revoke ? "changed" : "trusted";
  const question = revoke ? `Refuse all calls of ${name}?` : `Trust ${name}?`;
  if (revoke) {
    await requireYes(context, { question, done, yes });
    await trust.revoke(skill, person.id);
  } else {
    await requireApproval(context, person, { question, done, yes });
    await trust.accept(skill, review, person.id);
  }
  const state = revoke ? "revoked" : "trusted";
  out.answer({ ...toSkillFacts(found), trust: state, by: person.id }, `${name} is ${state}.`);
}

function listWaiting({ out }: Context, reviewed: readonly ReviewedSkill[]): void {
  const waiting = reviewed.filter(({ review }) => review.state !== "trusted");
  const rows = waiting.map(({ skill, review }) => [skill.name, review.state, review.reason ?? ""]);
  if (out.isJson) out.json({ skills: waiting.map((each) => ({ ...toSkillFacts(each), reason: each.review.reason })) });
  else if (rows.length === 0) out.line("All skills are trusted.");
  else {
    out.table(["skill", "trust", "why"], rows);
    out.line("", "`qm skills trust <name>` shows a skill and asks.");
  }
}

/** With `--json` on stderr: the person still has to see it. */
function showReview({ out }: Context, { skill, review }: ReviewedSkill): void {
  const line = (...lines: readonly string[]) => (out.isJson ? out.note(lines.join("\n")) : out.line(...lines));
  const { sizes, pin, digest = formatMissingDigest(review) } = review;
  line(out.bold(escapeUnsafe(skill.name)), "");
  if (review.reason !== undefined) line(out.warn(`${review.state}: ${escapeUnsafe(review.reason)}`));
  line(`folder  ${escapeUnsafe(skill.folder)}`, `digest  ${digest}`);
  if (pin !== undefined) line(`before  ${pin.digest}, by ${escapeUnsafe(pin.by)} at ${pin.at.toISOString()}`);
  const marks = [
    ["added", review.added],
    ["changed", review.changed],
  ] as const;
  for (const [path, bytes] of sizes) {
    const mark = pin && marks.find(([, paths]) => paths.includes(path))?.[0];
    line(`  ${toVisibleLine(path)}, ${formatCount(bytes, "byte")}${mark === undefined ? "" : `, ${mark}`}`);
  }
  for (const path of review.removed) line(`  ${toVisibleLine(path)}, removed`);
  if (pin !== undefined) line("", "Below: new files, and changes of files as lines with - and +.");
}

export const formatMissingDigest = ({ problems }: SkillReview): string =>
  `none: ${problems.find(({ level }) => level === "error")?.message}`;

/** The next step after a skill was created in a folder that is not trusted. */
export const formatTrustStep = (name: string): string =>
  `A person must approve its first use, or trust it now: \`qm skills trust ${quoteShellWord(name)}\`.`;
