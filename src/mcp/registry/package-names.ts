import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";

// What a runner cannot take for one of its options, a path or an address.
const IDENTIFIERS = {
  npm: /^(?:@[a-z0-9~][a-z0-9._~-]*\/)?[a-z0-9~][a-z0-9._~-]*$/i,
  pypi: /^[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?(?:\[[a-z0-9,._-]+\])?$/i,
  nuget: /^[a-z0-9_][a-z0-9_.-]*$/i,
} as const;

const VERSION = /^[a-z0-9^~<>=*][a-z0-9.+!_~^<>=*-]*$/i;
const EXACT = /^v?\d[a-z0-9.+!_-]*$/i;
const LIMIT = 214;

/** The package's name as a runner takes it, or `invalid_arguments`. */
export function requireIdentifier({ identifier }: { identifier: string }, kind: keyof typeof IDENTIFIERS): string {
  if (identifier.length <= LIMIT && IDENTIFIERS[kind].test(identifier)) return identifier;
  throw new QmError("invalid_arguments", `${quoted(identifier)} is not the name of a package of ${kind}`, {
    hint: "Look up how the package is called there.",
  });
}

/** A version, or a range of them, as a runner takes it. */
export function requireVersion(version: string): string {
  if (version.length <= LIMIT && VERSION.test(version)) return version;
  throw new QmError("invalid_arguments", `${quoted(version)} is not a version`, {
    hint: "Give an exact version, as in 1.2.3.",
  });
}

/** Whether it means one version and no other, ever. */
export function isPinned(version: string): boolean {
  return EXACT.test(version) && !/[<>=*^~]|(?:^|\.)x(?:\.|$)/i.test(version) && version !== "latest";
}
