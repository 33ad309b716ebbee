import type { Action, CallContext, Preview } from "../../core/action.ts";
import type { Caller } from "../../core/caller.ts";
import { formatCount, quoteShellWord, toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import type { UnstampedEvent } from "../../core/events.ts";
import { digestFiles, type FileBytes } from "../../core/file-digest.ts";
import type { Runtime } from "../../core/runtime.ts";
import { TOOL_FILES } from "./code/tool-file.ts";
import type { SkillFile } from "./skill-file.ts";
import {
  readSkillContents,
  readSkillSnapshot,
  readSkillVersion,
  type Skill,
  type SkillContents,
  type SkillSnapshot,
} from "./skill-folders.ts";
import { REVOKED, type SkillFileHashes, type SkillPin, type SkillPinStore } from "./skill-pins.ts";

/**
 * - `trusted`: it can be used
 * - `new`: each call needs approval; the first approved one makes it trusted
 * - `changed`, `suspicious`, `revoked`: calls are refused until a person trusts it
 */
export type TrustState = "trusted" | "new" | "changed" | "suspicious" | "revoked";

/** A skill compared with what a person has accepted. */
export interface SkillReview extends Pick<SkillContents, "digest" | "problems"> {
  readonly state: TrustState;
  readonly reason?: string | undefined;
  readonly pin?: SkillPin | undefined;
  /** The number of bytes of each file. */
  readonly sizes: ReadonlyMap<string, number>;
  /** Files by what happened to them since the pin. Without one, all are added. */
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
}

export type ReadSkillReview = SkillReview & Pick<SkillContents, "files">;

export interface SkillTrustOptions {
  readonly pins: SkillPinStore;
  readonly runtime: Pick<Runtime, "now">;
  /** Lists the kinds of misleading text in the front matter. Absent: nothing is scanned. */
  readonly scan?: (file: SkillFile) => readonly string[];
  readonly record?: (caller: Caller | undefined, event: UnstampedEvent) => void;
}

export type SkillTrust = ReturnType<typeof createSkillTrust>;

/** The pin and the digest as they were read last. `version` changes when the digest must be read again. */
type KnownSkill = {
  readonly pin: SkillPin | undefined;
  readonly digest?: string | undefined;
  readonly version?: string | undefined;
};

/** Whether a skill is trusted by its digest: outside of the folders that a person chose, and code, which must not change unseen. */
export const needsPin = ({ root, type, isLinked }: Skill): boolean =>
  !root.trusted || (root.source !== "core" && (type === "code" || isLinked));

/** Decides which skills may be used. Contents are trusted by their digest, once for all processes of the store. */
export function createSkillTrust({ pins, runtime, scan = () => [], record = () => {} }: SkillTrustOptions) {
  const known = new Map<string, KnownSkill>();
  const scanned = new WeakMap<SkillFile["fields"], readonly string[]>();
  const toKey = (root: string, name: string) => `${root}\n${name}`;
  const getPin = ({ root, name }: Skill) => pins.get(root.folder, name);

  function findMisleadingText(file: SkillFile): readonly string[] {
    const found = scanned.get(file.fields) ?? scan(file);
    scanned.set(file.fields, found);
    return found;
  }

  function judge(skill: Skill, file: SkillFile, digest: string | undefined, pin: SkillPin | undefined): TrustState {
    if (!needsPin(skill)) return "trusted";
    if (pin?.digest === REVOKED) return "revoked";
    if (pin !== undefined) return pin.digest === digest ? "trusted" : "changed";
    if (skill.root.trusted) return "trusted";
    return findMisleadingText(file).length > 0 ? "suspicious" : "new";
  }

  function getState(skill: Skill): TrustState {
    const { pin, digest } = known.get(toKey(skill.root.folder, skill.name)) ?? {};
    return judge(skill, skill, digest, pin);
  }

  function explain(state: TrustState, file: SkillFile): string | undefined {
    if (state === "changed") return "its files changed after they were trusted";
    if (state === "revoked") return "a person no longer trusts it";
    if (state === "new") return "no person has accepted it yet";
    return state === "suspicious"
      ? `its description can mislead a model: ${findMisleadingText(file).join(", ")}`
      : undefined;
  }

  /** Reads the files of a pinned skill again if they changed. Without a pin the digest decides nothing. */
  async function update(skill: Skill, pin: SkillPin | undefined): Promise<void> {
    const key = toKey(skill.root.folder, skill.name);
    if (pin === undefined) return void known.set(key, { pin });
    const before = known.get(key);
    const version = await readSkillVersion(skill);
    const isSame = version !== undefined && before?.version === version;
    const { digest } = isSame ? before : await readSkillContents(skill);
    known.set(key, { pin, digest, version });
  }

  /** The digest is checked when the call reads the files, so an older one will do here. */
  async function refreshPin(skill: Skill): Promise<void> {
    const key = toKey(skill.root.folder, skill.name);
    const pin = await getPin(skill);
    const before = known.get(key);
    if (pin === undefined || before?.digest === undefined) await update(skill, pin);
    else known.set(key, { ...before, pin });
  }

  function createError(skill: Skill, why: string, digest: string): QmError {
    const command = `qm skills trust ${quoteShellWord(skill.name)}`;
    return new QmError("quarantined", `the skill ${skill.name} cannot be used: ${why}`, {
      hint: `Nothing was run. Tell {user} that a person must look at it and trust it on Quartermaster's command line. Run {${command}} to see what it is and to trust it.`,
      details: { digest },
    });
  }

  /**
   * Reads a skill and checks that exactly these files are trusted. Throws `quarantined`. Without a context nothing was
   * called, so the first use does not make it trusted.
   */
  async function open(skill: Skill, context?: CallContext): Promise<SkillSnapshot> {
    const snapshot = await readSkillSnapshot(skill);
    if (!needsPin(skill)) return snapshot;
    const { digest } = snapshot;
    const { caller, approvalDecision } = context ?? {};
    let pin = await getPin(skill);
    const isApproved = approvalDecision?.preview === formatFirstUse(skill, snapshot);
    // Code of a trusted root needs no approval; but if there was one, it was for what the person saw.
    const isFirstUse = isApproved || (skill.root.trusted && approvalDecision === undefined);
    if (pin === undefined && isFirstUse && caller !== undefined)
      pin = await addPin(skill, snapshot, approvalDecision?.by ?? "first use", caller);
    const isUnseen = pin === undefined && approvalDecision !== undefined;
    const why = isUnseen
      ? "its files changed after a person was asked"
      : explain(judge(skill, snapshot, digest, pin), snapshot);
    if (why !== undefined) {
      const data = { skill: skill.name, digest, reason: why };
      if (caller !== undefined) record(caller, { type: "skill.withheld", data });
      throw createError(skill, why, digest);
    }
    return snapshot;
  }

  async function addPin(skill: Skill, { files, digest }: SkillSnapshot, by: string, caller: Caller): Promise<SkillPin> {
    const { name, root } = skill;
    const own = { root: root.folder, skill: name, digest, at: runtime.now(), by };
    const { pin, isNew } = await pins.add(own, files);
    if (isNew) record(caller, { type: "skill.trusted", data: { skill: name, digest, by, source: root.source } });
    return pin;
  }

  /** Shows an approver all files of a skill that is not trusted yet. Undefined: it is. */
  async function preview(skill: Skill): Promise<Preview | undefined> {
    const snapshot = await readSkillSnapshot(skill);
    const pin = await getPin(skill);
    const state = judge(skill, snapshot, snapshot.digest, pin);
    const why = state === "new" ? undefined : explain(state, snapshot);
    if (why !== undefined) throw createError(skill, why, snapshot.digest);
    if (pin !== undefined) return undefined;
    return { text: formatFirstUse(skill, snapshot), files: orderFiles(skill, snapshot.files) };
  }

  const isWithheld = (skill: Skill): boolean => !["trusted", "new"].includes(getState(skill));

  /** Adds the checks to the action of a skill of any type. */
  function guard(skill: Skill, action: Action): Action {
    if (!needsPin(skill)) return action;
    const guarded: Action = {
      ...action,
      ...(skill.root.trusted ? {} : { isAccepted: () => getState(skill) !== "new" }),
      refresh: () => refreshPin(skill),
      readiness: () => (isWithheld(skill) ? "quarantined" : (action.readiness?.() ?? "ready")),
      readinessReason: () => (isWithheld(skill) ? explain(getState(skill), skill) : action.readinessReason?.()),
      preview: () => preview(skill),
    };
    const isMisleading = !skill.root.trusted && isWithheld(skill) && findMisleadingText(skill).length > 0;
    return Object.freeze(isMisleading ? { ...guarded, ...hideTexts(skill) } : guarded);
  }

  /** No text of a suspicious skill reaches a model. */
  const hideTexts = (skill: Skill): Partial<Action> => ({
    description: "A skill that a person must look at before it can be used.",
    inputSchema: { type: "object" },
    async run(_args, context) {
      await open(skill, context);
      throw new QmError("conflict", `the skill ${skill.name} was trusted just now`, { hint: "Try again in a moment." });
    },
  });

  return {
    open,
    guard,
    getState,
    /** Brings the states of skills up to date: what was trusted elsewhere, and which files changed. */
    async refresh(skills: readonly Skill[]): Promise<void> {
      if (!skills.some(needsPin)) return;
      const stored = new Map((await pins.all()).map((pin) => [toKey(pin.root, pin.skill), pin]));
      for (const skill of skills.filter(needsPin))
        await update(skill, stored.get(toKey(skill.root.folder, skill.name)));
    },
    /** Reads a skill and compares it with its pin. For a person who decides. */
    async review(skill: Skill): Promise<ReadSkillReview> {
      const { digest, files, problems } = await readSkillContents(skill);
      const pin = needsPin(skill) ? await getPin(skill) : undefined;
      const state = judge(skill, skill, digest, pin);
      const before = pin === undefined ? {} : await pins.getFiles(skill.root.folder, skill.name);
      const after = toHashes(files);
      return {
        problems,
        ...(digest === undefined ? {} : { digest }),
        files: orderFiles(skill, files),
        sizes: new Map([...files].map(([path, bytes]) => [path, bytes.length])),
        state,
        pin,
        reason: explain(state, skill),
        added: Object.keys(after).filter((path) => !Object.hasOwn(before, path)),
        removed: Object.keys(before).filter((path) => !Object.hasOwn(after, path)),
        changed: Object.keys(after).filter((path) => Object.hasOwn(before, path) && before[path] !== after[path]),
      };
    },
    /** The files that are trusted, as far as they are stored. */
    async readTrusted({ name, root }: Skill): Promise<FileBytes> {
      const files = new Map<string, Uint8Array>();
      for (const [path, digest] of Object.entries(await pins.getFiles(root.folder, name))) {
        const bytes = await pins.getContent(digest);
        if (bytes !== undefined) files.set(path, bytes);
      }
      return files;
    },
    /** Trusts exactly what was reviewed, even if the files have changed since. */
    async accept({ name, root }: Skill, { digest, files }: ReadSkillReview, by: string): Promise<void> {
      if (digest === undefined)
        throw new QmError("conflict", `the skill ${name} has no digest, so it cannot be trusted`);
      await pins.replace({ root: root.folder, skill: name, digest, at: runtime.now(), by }, files);
      record(undefined, { type: "skill.trusted", data: { skill: name, digest, by, source: root.source } });
    },
    async revoke({ name, root }: Skill, by: string): Promise<void> {
      const { digest = "" } = (await pins.get(root.folder, name)) ?? {};
      await pins.replace({ root: root.folder, skill: name, digest: REVOKED, at: runtime.now(), by }, new Map());
      record(undefined, { type: "skill.withheld", data: { skill: name, digest, reason: `revoked by ${by}` } });
    },
  };
}

const toHashes = (files: FileBytes): SkillFileHashes =>
  Object.fromEntries(digestFiles(files).map(({ path, digest }) => [path, digest]));

/** The files in the order in which a person reads them: the SKILL.md, the program, the others. */
function orderFiles({ fileName }: Skill, files: FileBytes): FileBytes {
  const first = [fileName, ...TOOL_FILES];
  const rank = (path: string) => (first.includes(path) ? first.indexOf(path) : first.length);
  return new Map([...files].sort(([a], [b]) => rank(a) - rank(b)));
}

/** The digest stands for all files, so the same text means the same files. */
function formatFirstUse({ folder, root }: Skill, { files, digest }: SkillSnapshot): string {
  const bytes = [...files.values()].reduce((sum, { length }) => sum + length, 0);
  return [
    root.trusted
      ? "This skill is used for the first time. Approving this call trusts exactly these files."
      : "No person has accepted this skill yet. Approving this call runs it and trusts exactly these files.",
    `Folder: ${toOneLine(folder)}`,
    `Digest: ${digest}`,
    `${formatCount(files.size, "file")}, ${formatCount(bytes, "byte")}`,
  ].join("\n");
}
