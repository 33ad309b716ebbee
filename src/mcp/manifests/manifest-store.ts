import type { OfferedTool, ServerOffer } from "./offer.ts";

/** What a server offered, as it is kept: search and description read this, and no process is started for them. */
export interface ServerManifest {
  /** `fingerprintOf` the spec it was learned from. */
  readonly fingerprint: string;
  readonly offer: ServerOffer;
  readonly learnedAt: Date;
}

/**
 * - `accepted`: it may be used; a tool has one at most
 * - `withheld`: a person must look at it first
 * - `rejected`: a person has looked at it, and it may not be used
 */
export type PinState = "accepted" | "withheld" | "rejected";

/** One tool's definition that was seen, and what became of it. */
export interface DefinitionPin {
  /** Of the definition, as `definitionHash` makes it: the tool's name is in it. */
  readonly hash: string;
  readonly definition: OfferedTool;
  readonly state: PinState;
  /** Why it was withheld: `changed`, `new`, `duplicate`, or the kinds of the serious signs that were found. */
  readonly reasons: readonly string[];
  /** The kinds of all signs that were found in it when it was first seen: looking again at every start would take long. */
  readonly marks: readonly string[];
  readonly seenAt: Date;
  /** Who decided; absent where nobody had to. */
  readonly by?: string;
}

/** Everything that is kept of one server. */
export interface ManifestRecord {
  /** Another one after each change, by whichever process; never used twice. */
  readonly revision: number;
  readonly manifest: ServerManifest;
  readonly pins: readonly DefinitionPin[];
}

/** What is to be different. `put` replaces the pins with the same hash, `drop` names pins by their hash. */
export interface ManifestChange {
  readonly manifest?: ServerManifest;
  readonly put: readonly DefinitionPin[];
  readonly drop: readonly string[];
}

/** Where manifests and pins outlive the process. Several processes may share it. */
export interface ManifestStore {
  all(): Promise<ReadonlyMap<string, ManifestRecord>>;
  read(server: string): Promise<ManifestRecord | undefined>;
  /** The revision of each server's record: cheap, to find out what others have changed. */
  revisions(): Promise<ReadonlyMap<string, number>>;
  /**
   * Reads a server's record, asks `decide` what is to be different, and writes that, all in one transaction: of two
   * processes that see a server for the first time only one is first, and nobody undoes a decision unread. `decide` must
   * answer at once; undefined means that nothing is to change, and nothing is written then. Answers the record as it is
   * afterwards. A new record begins with a manifest.
   */
  change(
    server: string,
    decide: (record: ManifestRecord | undefined) => ManifestChange | undefined,
  ): Promise<ManifestRecord | undefined>;
  /** Forgets everything of a server; answers whether there was something. */
  forget(server: string): Promise<boolean>;
}
