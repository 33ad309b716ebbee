import { join, sep } from "node:path";
import { z } from "zod";
import { QmError } from "../../../core/errors.ts";
import { getOwn, isRecord, outgrows } from "../../../core/json.ts";
import { oneLine } from "../../../core/plain-text.ts";
import type { Answers } from "../answers.ts";
import { filledText, type ReferringText } from "../referring-text.ts";
import type { ZipEntry } from "./zip.ts";

const setting = z.union([z.string(), z.number(), z.boolean()]).transform(String);

const option = z.object({
  title: z.string().optional(),
  description: z.string().optional(),
  type: z.string().optional(),
  required: z.boolean().default(false),
  sensitive: z.boolean().default(false),
  multiple: z.boolean().default(false),
  default: z.union([setting, z.array(setting)]).optional(),
});

const run = z.object({
  command: z.string().min(1).optional(),
  args: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()).optional(),
});

const manifestSchema = z.object({
  server: z.object({
    type: z.string().optional(),
    mcp_config: run.extend({ command: z.string().min(1), platform_overrides: z.record(z.string(), run).default({}) }),
  }),
  user_config: z.record(z.string(), option).default({}),
  compatibility: z.object({ platforms: z.array(z.string()).optional() }).optional(),
});

export type BundleManifest = z.output<typeof manifestSchema>;

const MANIFEST = "manifest.json";
const MANIFEST_BYTES = 2 ** 20;

/** The manifest of a bundle. Throws `invalid_arguments` when there is none that says how to start it. */
export async function manifestOf(entries: readonly ZipEntry[]): Promise<BundleManifest> {
  const entry = entries.find(({ path }) => path === MANIFEST);
  if (entry === undefined || entry.size > MANIFEST_BYTES) throw unusable(`it has no ${MANIFEST} of usual size`);
  let raw: unknown;
  try {
    raw = JSON.parse((await entry.bytes()).toString("utf8"));
  } catch {
    throw unusable(`its ${MANIFEST} is no JSON`);
  }
  if (!isRecord(raw) || outgrows(raw, { nodes: 50_000, depth: 32 })) throw unusable(`its ${MANIFEST} is no manifest`);
  const parsed = manifestSchema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw unusable(`its ${MANIFEST} does not say how to start it (${issue?.path.join(".")}: ${issue?.message})`);
}

export interface Surroundings {
  readonly platform: string;
  /** The user's home folder. Absent: a bundle that speaks of it cannot be installed. */
  readonly home?: string | undefined;
}

export interface BundleLaunch {
  readonly command: ReferringText;
  readonly args: readonly ReferringText[];
  readonly env: Readonly<Record<string, ReferringText>>;
}

/** How the bundle in `folder` is started on this platform, with the user's answers filled in. */
export function bundleLaunch(
  manifest: BundleManifest,
  folder: string,
  answers: Answers,
  { platform, home }: Surroundings,
): BundleLaunch {
  const { platforms } = manifest.compatibility ?? {};
  if (platforms !== undefined && platforms.length > 0 && !platforms.includes(platform))
    throw unusable(`it is for ${platforms.join(", ")}, and this is ${platform}`);
  const { platform_overrides, ...usual } = manifest.server.mcp_config;
  const own = getOwn(platform_overrides, platform) ?? {};
  const config = {
    command: own.command ?? usual.command,
    args: own.args ?? usual.args ?? [],
    env: { ...usual.env, ...own.env },
  };
  const chosen = new Map(Object.entries(manifest.user_config).map(([key, asked]) => [key, chosenFor(key, asked)]));
  return {
    command: inFolder(config.command),
    args: config.args.flatMap(expanded),
    // A variable for what nobody chose is left out: empty is not the same as not there.
    env: Object.fromEntries(
      Object.entries(config.env)
        .map(([name, text]) => [name, filled(text)] as const)
        .filter(([, text]) => text.some((part) => part !== "")),
    ),
  };

  function chosenFor(key: string, asked: z.output<typeof option>): readonly ReferringText[] {
    const presets = [asked.default ?? []].flat().map((text) => filledText(text, place, DOLLAR));
    const input = {
      isRequired: asked.required && presets.length === 0,
      isSecret: asked.sensitive,
      description: asked.description ?? asked.title,
      format: asked.type === "number" || asked.type === "boolean" ? asked.type : undefined,
    };
    const values = answers.values(input, { key, where: "variable" });
    return values.length === 0 ? presets : asked.multiple ? values : values.slice(0, 1);
  }

  /** An argument that is a list and nothing else becomes as many arguments. */
  function expanded(text: string): readonly ReferringText[] {
    const key = /^\$\{user_config\.([^{}]+)\}$/.exec(text)?.[1];
    return key === undefined ? [filled(text)] : (chosen.get(key) ?? [[text]]);
  }

  function filled(text: string): ReferringText {
    return filledText(text, variable, DOLLAR);
  }

  function variable(name: string): ReferringText | undefined {
    if (!name.startsWith("user_config.")) return place(name);
    const values = chosen.get(name.slice("user_config.".length));
    return values?.flatMap((value, at) => (at === 0 ? value : [",", ...value]));
  }

  function place(name: string): ReferringText | undefined {
    if (name === "__dirname") return [folder];
    if (name === "/" || name === "pathSeparator") return [sep];
    const below = HOMES.get(name);
    if (below === undefined) return undefined;
    if (home === undefined) throw unusable(`it asks for the user's folder ${name}, which is not known here`);
    return [join(home, below)];
  }

  /** A program of the bundle itself may be named without its folder; any other is looked for on the PATH. */
  function inFolder(command: string): ReferringText {
    const isOwn = command.includes("/") && !/^(?:\/|\$\{|[A-Za-z]:)/.test(command);
    return isOwn ? [join(folder, command)] : filled(command);
  }
}

const DOLLAR = /\$\{([^{}]{1,100})\}/g;
const HOMES = new Map([
  ["HOME", "."],
  ["DESKTOP", "Desktop"],
  ["DOCUMENTS", "Documents"],
  ["DOWNLOADS", "Downloads"],
]);

function unusable(why: string): QmError {
  return new QmError("invalid_arguments", `the bundle cannot be installed: ${oneLine(why)}`, {
    hint: "Choose another package of this server, or add its command yourself.",
  });
}
