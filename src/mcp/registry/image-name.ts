import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import type { Package } from "./server-json.ts";

export interface Image {
  readonly image: string;
  /** The registry it is drawn from. */
  readonly host: string;
  readonly tag?: string;
  readonly digest?: string;
}

const PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
const IMAGE = new RegExp(
  `^(?:(${PART}(?::\\d{1,5})?)\\/)?(${PART}(?:\\/${PART})*)(?::([\\w][\\w.-]{0,127}))?(?:@(sha256:[a-f0-9]{64}))?$`,
  "i",
);

/** Reads the name of an image, or throws `invalid_arguments`. */
export function parseImage(text: string): Image {
  const match = text.length <= 512 ? IMAGE.exec(text) : null;
  if (match === null) {
    throw new QmError("invalid_arguments", `${quoted(text)} is not the name of an image`, {
      hint: "Give it with its tag or digest, as in ghcr.io/owner/name:1.2.3.",
    });
  }
  const [, first, , tag, digest] = match;
  const isHost = first !== undefined && (/[.:]/.test(first) || first === "localhost");
  return {
    image: text,
    host: isHost ? first : "docker.io",
    ...(tag === undefined ? {} : { tag }),
    ...(digest === undefined ? {} : { digest }),
  };
}

/** The image of a package. Old entries have the version, and the registry, apart from the name. */
export function imageOf({ identifier, version, registryBaseUrl }: Package): Image & {
  readonly warnings: readonly string[];
} {
  const named = parseImage(identifier);
  const isTagged = named.tag !== undefined || named.digest !== undefined;
  const tagged = isTagged || version === undefined || version === "" ? identifier : `${identifier}:${version}`;
  const base =
    registryBaseUrl !== undefined && URL.canParse(registryBaseUrl) ? new URL(registryBaseUrl).host : "docker.io";
  const isElsewhere = base !== "docker.io" && named.host === "docker.io" && !identifier.startsWith("docker.io/");
  const image = parseImage(isElsewhere ? `${base}/${tagged}` : tagged);
  return { ...image, warnings: imageWarnings(image) };
}

export function imageWarnings({ image, tag, digest }: Image): readonly string[] {
  if (digest !== undefined) return [];
  if (tag === undefined || tag === "latest")
    return [`${image} is whatever is newest: what is run can change from one start to the next`];
  return [`the tag of ${image} can be moved to another image; only a digest (@sha256:...) stays the same`];
}
