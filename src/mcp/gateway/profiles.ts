import type { ProfileConfig } from "../../config/gateway-schema.ts";
import type { Config } from "../../config/schema.ts";
import { messageOf, QmError } from "../../core/errors.ts";
import { didYouMean } from "../../core/nearest.ts";
import type { GatewayProfile } from "./gateway.ts";

const DEFAULT: ProfileConfig = { actor: "default", pass_through: [], resources: true, prompts: true };

function profilesOf({ gateway }: Config): Readonly<Record<string, ProfileConfig>> {
  return { default: DEFAULT, ...gateway.profiles };
}

/** The profile of that name. Throws `invalid_config` with the names there are. */
export function profileOf(config: Config, name: string): GatewayProfile {
  const profiles = profilesOf(config);
  const found = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (found !== undefined) return gatewayProfile(name, found);
  const names = Object.keys(profiles);
  throw new QmError("invalid_config", `no profile ${JSON.stringify(name)} is configured${didYouMean(name, names)}`, {
    hint: `Known profiles: ${names.join(", ")}. gateway.profiles defines more.`,
  });
}

export interface TokenOptions {
  /** Fills a reference, or throws when what it refers to is not there. */
  readonly fill: (text: string, key: string) => string;
  /** Of the profile `default`, where it has none of its own. */
  readonly defaultToken: string;
  readonly onProblem: (problem: string) => void;
}

/** Profiles by the tokens that their clients say. One whose token is not there is nobody's, and that is told. */
export function profilesByToken(
  config: Config,
  { fill, defaultToken, onProblem }: TokenOptions,
): readonly (readonly [token: string, profile: GatewayProfile])[] {
  const found = Object.entries(profilesOf(config)).flatMap(([name, profile]) => {
    const shown = gatewayProfile(name, profile);
    if (profile.token === undefined) return name === "default" ? [[defaultToken, shown] as const] : [];
    try {
      return [[fill(profile.token, `gateway.profiles.${name}.token`), shown] as const];
    } catch (thrown) {
      onProblem(`no client gets the profile ${name}: ${messageOf(thrown)}`);
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

function gatewayProfile(name: string, profile: ProfileConfig): GatewayProfile {
  const { actor, surface, pass_through, resources, prompts } = profile;
  return { name, actor, passThrough: pass_through, resources, prompts, ...(surface === undefined ? {} : { surface }) };
}
