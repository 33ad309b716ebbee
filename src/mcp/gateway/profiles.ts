import type { ProfileConfig } from "../../config/mcp-schema.ts";
import type { Config } from "../../config/schema.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { getOwn, omitUndefined } from "../../core/json.ts";
import { didYouMean } from "../../core/nearest.ts";
import { loadOrCreateSecret } from "../../workspace/secret-file.ts";
import type { GatewayProfile } from "./gateway.ts";

/** The token of the profile `default`, which is created at the first start. */
export function loadOrCreateToken(path: string): Promise<string> {
  const hint = "Remove the file. The next start creates a new one.";
  return loadOrCreateSecret(path, (text) => text, { what: "token", hint });
}

/** `actor`: replaces that of a profile that is not configured. Throws `invalid_config` for an unknown name. */
export function getGatewayProfile(config: Config, name: string, actor?: string): GatewayProfile {
  const profiles = getProfileConfigs(config);
  const found = getOwn(profiles, name);
  if (found !== undefined) {
    if (actor !== undefined && actor !== found.actor && Object.hasOwn(config.gateway.profiles, name)) {
      const message = `the clients of the profile ${JSON.stringify(name)} act as ${found.actor}, not as ${actor}`;
      throw new QmError("invalid_config", message, { hint: "Leave out the actor, or use another profile." });
    }
    return toGatewayProfile(name, { ...found, ...omitUndefined({ actor }) });
  }
  const names = Object.keys(profiles);
  throw new QmError("invalid_config", `no profile ${JSON.stringify(name)} is configured${didYouMean(name, names)}`, {
    hint: `Known profiles: ${names.join(", ")}. gateway.profiles defines more.`,
  });
}

/** The profiles with their tokens. One that cannot be filled is reported and left out. Throws `invalid_config`. */
export function listProfileTokens(
  config: Config,
  fill: (text: string, key: string) => string,
  defaultToken: string,
  onProblem: (problem: string) => void,
): readonly (readonly [token: string, profile: GatewayProfile])[] {
  const found = Object.entries(getProfileConfigs(config)).flatMap(([name, profileConfig]) => {
    const profile = toGatewayProfile(name, profileConfig);
    if (profileConfig.token === undefined) return name === "default" ? [[defaultToken, profile] as const] : [];
    try {
      return [[fill(profileConfig.token, `gateway.profiles.${name}.token`), profile] as const];
    } catch (thrown) {
      onProblem(`no client gets the profile ${name}: ${getErrorMessage(thrown)}`);
      return [];
    }
  });
  const names = new Map<string, string>();
  for (const [token, { name }] of found) {
    const both = `${names.get(token)} and ${name}`;
    const hint = "Give each its own: the token tells clients apart.";
    if (names.has(token)) throw new QmError("invalid_config", `the profiles ${both} have the same token`, { hint });
    names.set(token, name);
  }
  return found;
}

function getProfileConfigs({ gateway }: Config): Readonly<Record<string, ProfileConfig>> {
  return { default: { actor: "default", passThrough: [], resources: true, prompts: true }, ...gateway.profiles };
}

function toGatewayProfile(name: string, profile: ProfileConfig): GatewayProfile {
  const { actor, surface, passThrough, resources, prompts } = profile;
  return omitUndefined({ name, actor, passThrough, resources, prompts, surface });
}
