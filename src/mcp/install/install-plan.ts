import { hash } from "node:crypto";
import { canonicalJson } from "../../core/json.ts";
import type { Launch } from "../server-spec.ts";

/**
 * A launch on one line for a person: every argument and every value in full, secrets as the references they are. What
 * cannot be seen, or could be taken for something else, is written as `\u{...}`.
 */
export function formatCommandLine(launch: Launch): string {
  if (launch.kind === "http") {
    const headers = Object.entries(launch.headers).map(
      ([name, value]) => `${escapeInvisible(name)}: ${escapeInvisible(value)}`,
    );
    return [escapeInvisible(launch.url), ...(headers.length === 0 ? [] : [`with ${headers.join(", ")}`])].join(" ");
  }
  const env = Object.entries(launch.env).map(([name, value]) => `${escapeInvisible(name)}=${quoteWord(value)}`);
  const where = launch.cwd === undefined ? [] : [`(in ${quoteWord(launch.cwd)})`];
  return [...env, ...[launch.command, ...launch.args].map(quoteWord), ...where].join(" ");
}

/** Whether a text holds characters that most people could not type, or could not tell from others. */
export function hasUnusualCharacters(text: string): boolean {
  return /[^\t\n -~]/u.test(text);
}

// Nothing in it that a reader could take for the end of the argument. `${`, as in a reference, is no such thing.
const BARE = /^[\p{L}\p{N}_@%+=:,./~^?#!${}[\]-]+$/u;

function quoteWord(text: string): string {
  return BARE.test(text) && escapeInvisible(text) === text
    ? text
    : `"${escapeInvisible(text.replace(/["\\]/g, "\\$&"))}"`;
}

/** Letters and digits of every script can be seen, but for a few that are blank; of other characters only ASCII ones. */
function escapeInvisible(text: string): string {
  return text.replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

const INVISIBLE =
  /\u034F|[\uFE00-\uFE0F]|[\u{E0100}-\u{E01EF}]|[\u115F\u1160\u17B4\u17B5\u3164\uFFA0]|[^\p{L}\p{N}\p{M} -~]/gu;

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

export type InstallPlanDraft = Omit<InstallPlan, "hash" | "command"> & { readonly command?: string };

/** A plan out of what was found: with its command line, and its hash over everything. */
export function sealPlan(draft: InstallPlanDraft): InstallPlan {
  const plan = {
    ...draft,
    command: draft.command ?? formatCommandLine(draft.launch),
    hosts: [...new Set(draft.hosts)],
    warnings: [...new Set(draft.warnings)],
  };
  return { ...plan, hash: hash("sha256", canonicalJson(plan), "hex") };
}
