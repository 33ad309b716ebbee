import { omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { createInputError } from "./input-error.ts";
import type { ServerPackage } from "./server-json.ts";

interface ContainerImage {
  readonly image: string;
  /** The registry of the image. */
  readonly host: string;
  readonly tag?: string;
  readonly digest?: string;
}

const NAME_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
const IMAGE_PATTERN = new RegExp(
  `^(?:(${NAME_PART}(?::\\d{1,5})?)\\/)?(${NAME_PART}(?:\\/${NAME_PART})*)(?::([\\w][\\w.-]{0,127}))?(?:@(sha256:[a-f0-9]{64}))?$`,
  "i",
);

/** Throws `invalid_arguments`. */
export function parseImage(text: string): ContainerImage {
  const match = text.length <= 512 ? IMAGE_PATTERN.exec(text) : null;
  if (match === null) {
    const hint = "Include a tag or digest, such as ghcr.io/owner/name:1.2.3.";
    throw createInputError(`${quoteName(text)} is not the name of an image`, hint);
  }
  const [, first, , tag, digest] = match;
  const isHost = first !== undefined && (/[.:]/.test(first) || first === "localhost");
  return omitUndefined({ image: text, host: isHost ? first : "docker.io", tag, digest });
}

/** The image of a package. Old entries store version and registry separately. */
export function resolvePackageImage({ identifier, version, registryBaseUrl }: ServerPackage): ContainerImage & {
  readonly warnings: readonly string[];
} {
  const named = parseImage(identifier);
  const isTagged = named.tag !== undefined || named.digest !== undefined;
  const tagged = isTagged || version === undefined || version === "" ? identifier : `${identifier}:${version}`;
  const base =
    registryBaseUrl !== undefined && URL.canParse(registryBaseUrl) ? new URL(registryBaseUrl).host : "docker.io";
  const isElsewhere = base !== "docker.io" && named.host === "docker.io" && !identifier.startsWith("docker.io/");
  const image = parseImage(isElsewhere ? `${base}/${tagged}` : tagged);
  return { ...image, warnings: getImageWarnings(image) };
}

export function getImageWarnings({ image, tag, digest }: ContainerImage): readonly string[] {
  if (digest !== undefined) return [];
  if (tag === undefined || tag === "latest")
    return [`${image} has no fixed version: the code can change between starts`];
  return [`the tag of ${image} can be moved to another image; only a digest (@sha256:...) stays the same`];
}

// No option, path or URL of a runner.
const IDENTIFIERS = {
  npm: /^(?:@[a-z0-9~][a-z0-9._~-]*\/)?[a-z0-9~][a-z0-9._~-]*$/i,
  pypi: /^[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?(?:\[[a-z0-9,._-]+\])?$/i,
  nuget: /^[a-z0-9_][a-z0-9_.-]*$/i,
} as const;

const VERSION = /^[a-z0-9^~<>=*][a-z0-9.+!_~^<>=*-]*$/i;
const EXACT = /^v?\d[a-z0-9.+!_-]*$/i;
const PACKAGE_NAME_LIMIT = 214;

/** Throws `invalid_arguments`. */
export function requireIdentifier({ identifier }: { identifier: string }, kind: keyof typeof IDENTIFIERS): string {
  if (identifier.length <= PACKAGE_NAME_LIMIT && IDENTIFIERS[kind].test(identifier)) return identifier;
  const hint = "Check the name in the registry.";
  throw createInputError(`${quoteName(identifier)} is not the name of a package of ${kind}`, hint);
}

/** A version or range in the syntax of the runner. */
export function requireVersion(version: string): string {
  if (version.length <= PACKAGE_NAME_LIMIT && VERSION.test(version)) return version;
  throw createInputError(`${quoteName(version)} is not a version`, "Use an exact version, such as 1.2.3.");
}

/** Whether it names exactly one version. */
export function isPinned(version: string): boolean {
  return EXACT.test(version) && !/[<>=*^~]|(?:^|\.)x(?:\.|$)/i.test(version) && version !== "latest";
}
