import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { ProfileConfig } from "../../config/mcp-schema.ts";
import type { Config } from "../../config/schema.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { didYouMean } from "../../core/nearest.ts";
import { createFileOnce } from "../../files/safe-files.ts";
import type { GatewayProfile } from "./gateway.ts";

/** The token in a file that only its owner can read; made when there is none. Two that make it at once get the same. */
export async function loadOrCreateToken(path: string): Promise<string> {
  try {
    if (!existsSync(path)) await createFileOnce(path, `${randomBytes(32).toString("base64url")}\n`);
    const token = (await readFile(path, "utf8")).trim();
    if (token.length < 32) throw new Error("it is too short to be one");
    return token;
  } catch (thrown) {
    throw new QmError("store_failed", `there is no token in ${path}: ${getErrorMessage(thrown)}`, {
      hint: "Remove the file; a new one is made at the next start.",
    });
  }
}

const DEFAULT_PROFILE: ProfileConfig = { actor: "default", passThrough: [], resources: true, prompts: true };

function getProfileConfigs({ gateway }: Config): Readonly<Record<string, ProfileConfig>> {
  return { default: DEFAULT_PROFILE, ...gateway.profiles };
}

/** The profile of that name. Throws `invalid_config` with the names there are. */
export function getGatewayProfile(config: Config, name: string): GatewayProfile {
  const profiles = getProfileConfigs(config);
  const found = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (found !== undefined) return toGatewayProfile(name, found);
  const names = Object.keys(profiles);
  throw new QmError("invalid_config", `no profile ${JSON.stringify(name)} is configured${didYouMean(name, names)}`, {
    hint: `Known profiles: ${names.join(", ")}. gateway.profiles defines more.`,
  });
}

interface ProfileTokenOptions {
  /** Fills a reference, or throws when what it refers to is not there. */
  readonly fill: (text: string, key: string) => string;
  /** Of the profile `default`, where it has none of its own. */
  readonly defaultToken: string;
  readonly onProblem: (problem: string) => void;
}

/** Profiles by the tokens that their clients say. One whose token is not there is nobody's, and that is told. */
export function listProfileTokens(
  config: Config,
  { fill, defaultToken, onProblem }: ProfileTokenOptions,
): readonly (readonly [token: string, profile: GatewayProfile])[] {
  const found = Object.entries(getProfileConfigs(config)).flatMap(([name, profile]) => {
    const shown = toGatewayProfile(name, profile);
    if (profile.token === undefined) return name === "default" ? [[defaultToken, shown] as const] : [];
    try {
      return [[fill(profile.token, `gateway.profiles.${name}.token`), shown] as const];
    } catch (thrown) {
      onProblem(`no client gets the profile ${name}: ${getErrorMessage(thrown)}`);
      return [];
    }
  });
  for (const [at, [token, { name }]] of found.entries()) {
    const first = found.findIndex(([other]) => other === token);
    if (first === at) continue;
    throw new QmError("invalid_config", `the profiles ${found[first]?.[1].name} and ${name} have the same token`, {
      hint: "Give each its own: the token is what tells clients apart.",
    });
  }
  return found;
}

function toGatewayProfile(name: string, profile: ProfileConfig): GatewayProfile {
  const { actor, surface, passThrough, resources, prompts } = profile;
  return { name, actor, passThrough, resources, prompts, ...(surface === undefined ? {} : { surface }) };
}
