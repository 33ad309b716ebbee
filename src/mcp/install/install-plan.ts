import { hash } from "node:crypto";
import { canonicalJson } from "../../core/json.ts";
import type { Launch } from "../server-spec.ts";

/**
 * A launch on one line: every argument and value in full, secrets as references. Invisible and ambiguous characters are
 * written as `\u{...}`.
 */
export function formatCommandLine(launch: Launch): string {
  if (launch.kind === "http") {
    const headers = Object.entries(launch.headers).map((pair) => pair.map(escapeInvisible).join(": "));
    return `${escapeInvisible(launch.url)}${headers.length === 0 ? "" : ` with ${headers.join(", ")}`}`;
  }
  const env = Object.entries(launch.env).map(([name, value]) => `${escapeInvisible(name)}=${quoteWord(value)}`);
  const where = launch.cwd === undefined ? [] : [`(in ${quoteWord(launch.cwd)})`];
  return [...env, ...[launch.command, ...launch.args].map(quoteWord), ...where].join(" ");
}

/** Whether a text has characters that most people cannot type or tell apart. */
export const hasUnusualCharacters = (text: string): boolean => /[^\t\n -~]/u.test(text);

// Excludes every character that could look like the end of an argument. `${` of a reference is allowed.
const BARE = /^[\p{L}\p{N}_@%+=:,./~^?#!${}[\]-]+$/u;

function quoteWord(text: string): string {
  if (BARE.test(text) && escapeInvisible(text) === text) return text;
  return `"${escapeInvisible(text.replace(/["\\]/g, "\\$&"))}"`;
}

/** Visible letters and digits of every script, and otherwise only ASCII. */
function escapeInvisible(text: string): string {
  return text.replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

const INVISIBLE =
  /\u034F|[\uFE00-\uFE0F]|[\u{E0100}-\u{E01EF}]|[\u115F\u1160\u17B4\u17B5\u3164\uFFA0]|[^\p{L}\p{N}\p{M} -~]/gu;

/** An archive that must be unpacked before the server can start. */
export interface BundleFile {
  readonly url: string;
  /** The SHA-256 in lower-case hex. The download is compared with it before unpacking. */
  readonly sha256: string;
  /** An absolute path, named after the hash. */
  readonly folder: string;
}

/** A required value that was not provided. */
export interface MissingInput {
  readonly key: string;
  readonly where: "env" | "argument" | "header" | "variable";
  readonly secret: boolean;
  readonly description?: string;
  readonly choices?: readonly string[];
  readonly format?: string;
  readonly placeholder?: string;
  /** For a secret: the name to store it under. The same plan is complete afterwards. */
  readonly secretName?: string;
}

/** The effects of installing a server. Nothing has been done yet. */
export interface InstallPlan {
  readonly name: string;
  /** Contains secrets only as references. Must not be started while something is missing. */
  readonly launch: Launch;
  /** An exact version where the source has one. */
  readonly version?: string;
  readonly source: string;
  readonly description?: string;
  /** The full command line or URL, with invisible characters made visible. */
  readonly command: string;
  /** The hosts that installing and starting it contacts, as far as known. */
  readonly hosts: readonly string[];
  readonly missing: readonly MissingInput[];
  readonly warnings: readonly string[];
  readonly files?: BundleFile;
  /** A hash of the whole plan. Equal hashes mean equal plans. */
  readonly hash: string;
}

export type InstallPlanDraft = Omit<InstallPlan, "hash" | "command"> & { readonly command?: string };

export function sealPlan(draft: InstallPlanDraft): InstallPlan {
  const plan = {
    ...draft,
    command: draft.command ?? formatCommandLine(draft.launch),
    hosts: [...new Set(draft.hosts)],
    warnings: [...new Set(draft.warnings)],
  };
  return { ...plan, hash: hash("sha256", canonicalJson(plan), "hex") };
}
