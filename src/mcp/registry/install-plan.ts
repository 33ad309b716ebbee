import { hash } from "node:crypto";
import { canonicalJson } from "../../core/json.ts";
import type { Launch } from "../server-spec.ts";
import { commandLine } from "./command-line.ts";

/** A file that must be there before the server can start: an archive that is unpacked into a folder. */
export interface BundleFile {
  readonly url: string;
  /** In lower-case hexadecimal digits. What is fetched is compared with it before anything is unpacked. */
  readonly sha256: string;
  /** Absolute, and named after the hash. */
  readonly folder: string;
}

/** A value that the server needs and nobody gave. */
export interface MissingInput {
  /** What an input is called under which it is given. */
  readonly key: string;
  readonly where: "env" | "argument" | "header" | "variable";
  readonly secret: boolean;
  readonly description?: string;
  readonly choices?: readonly string[];
  readonly format?: string;
  readonly placeholder?: string;
  /** For a secret: what stores it. Once it is stored, the same plan is complete. */
  readonly store?: string;
}

/** Everything that installing a server would mean, before a person has agreed to it. Nothing has been done yet. */
export interface InstallPlan {
  /** What the server would be called here. */
  readonly name: string;
  /** Secrets are in it only as references. Not to be started while something is missing. */
  readonly launch: Launch;
  /** Exact, wherever there is such a thing. */
  readonly version?: string;
  /** Where it comes from, in one line. */
  readonly source: string;
  readonly description?: string;
  /** The whole command line or URL for a person, uncut, with what cannot be seen made visible. */
  readonly command: string;
  /** The hosts that installing and starting it is known to reach. What the program itself reaches, nobody knows. */
  readonly hosts: readonly string[];
  readonly missing: readonly MissingInput[];
  readonly warnings: readonly string[];
  readonly files?: BundleFile;
  /** Over all of it: two plans with the same hash are the same plan. */
  readonly hash: string;
}

export type PlanDraft = Omit<InstallPlan, "hash" | "command"> & { readonly command?: string };

/** A plan out of what was found: with its command line, and its hash over everything. */
export function sealed(draft: PlanDraft): InstallPlan {
  const plan = {
    ...draft,
    command: draft.command ?? commandLine(draft.launch),
    hosts: [...new Set(draft.hosts)],
    warnings: [...new Set(draft.warnings)],
  };
  return { ...plan, hash: hash("sha256", canonicalJson(plan), "hex") };
}
