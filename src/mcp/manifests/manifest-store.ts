import type { FileBytes, GetContent } from "../../core/file-digest.ts";
import type { OfferedTool, ServerOffer } from "./offer.ts";

/** The stored offer of a server. Search and descriptions read it without starting the server. */
export interface ServerManifest {
  /** `fingerprintServer` of the spec that the offer came from. */
  readonly fingerprint: string;
  readonly offer: ServerOffer;
  readonly learnedAt: Date;
}

/** `accepted`: may be used, one per tool. `withheld`: waits for a person. `rejected`: refused by a person. */
export type PinState = "accepted" | "withheld" | "rejected";

export interface DefinitionPin {
  /** From `hashDefinition`, which includes the tool's name. */
  readonly hash: string;
  readonly definition: OfferedTool;
  readonly state: PinState;
  /** Why it was withheld: `changed`, `new`, `duplicate`, or the kinds of serious findings. */
  readonly reasons: readonly string[];
  /** The kinds of all findings when it was first seen. A scan at every start would take too long. */
  readonly marks: readonly string[];
  readonly seenAt: Date;
  readonly by?: string;
}

export interface ManifestRecord {
  /** Increases with each change by any process and is never reused. */
  readonly revision: number;
  readonly manifest: ServerManifest;
  readonly pins: readonly DefinitionPin[];
}

/** `put` replaces the pins with the same hash, `drop` lists hashes of pins to remove. */
export interface ManifestChange {
  readonly manifest?: ServerManifest;
  readonly put: readonly DefinitionPin[];
  readonly drop: readonly string[];
}

type DecideChange = (record: ManifestRecord | undefined) => ManifestChange | undefined;

export interface ManifestStore {
  all(): Promise<ReadonlyMap<string, ManifestRecord>>;
  read(server: string): Promise<ManifestRecord | undefined>;
  /** The revision of each record, as a cheap check for changes by other processes. */
  revisions(): Promise<ReadonlyMap<string, number>>;
  /**
   * Reads a record, calls `decide`, and writes the change in one transaction, so that concurrent processes neither both
   * see a server first nor undo a decision unread. `decide` must be synchronous; if it returns undefined, nothing is
   * written. The first change of a server has a manifest. Resolves with the new record.
   */
  change(server: string, decide: DecideChange): Promise<ManifestRecord | undefined>;
  /** Deletes a record and returns whether it existed. */
  forget(server: string): Promise<boolean>;
  /** The bytes of a file of an accepted skill. Undefined: no person has been shown it. */
  readonly getContent: GetContent;
  /** Stores files of a skill that is accepted next. */
  addContents(files: FileBytes): Promise<void>;
}
