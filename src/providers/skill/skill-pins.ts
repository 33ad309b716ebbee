import type { FileBytes, GetContent } from "../../core/file-digest.ts";

/** The files of a skill that are trusted: a person accepted them, or they are code that was used first. */
export interface SkillPin {
  /** The folder that the skill was found in, as it is configured. */
  readonly root: string;
  readonly skill: string;
  /** Of all files. `REVOKED`: no files are trusted. */
  readonly digest: string;
  readonly at: Date;
  readonly by: string;
}

/** The hash of each file by its path. */
export type SkillFileHashes = Readonly<Record<string, string>>;

export const REVOKED = "revoked";

/** One pin for each skill of a root. All processes of a store share them. */
export interface SkillPinStore {
  all(): Promise<readonly SkillPin[]>;
  get(root: string, skill: string): Promise<SkillPin | undefined>;
  getFiles(root: string, skill: string): Promise<SkillFileHashes>;
  /** The bytes of a trusted file. Undefined: an older version trusted it and stored only its hash. */
  readonly getContent: GetContent;
  /** Stores the first pin of a skill, and its files. A pin that exists stays and is returned. */
  add(pin: SkillPin, files: FileBytes): Promise<{ readonly pin: SkillPin; readonly isNew: boolean }>;
  replace(pin: SkillPin, files: FileBytes): Promise<void>;
}
