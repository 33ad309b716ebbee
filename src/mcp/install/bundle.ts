import { hash, randomUUID } from "node:crypto";
import { mkdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, sep } from "node:path";
import { z } from "zod";
import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn, isLargerThan, isRecord } from "../../core/json.ts";
import { isLoopback } from "../../core/loopback.ts";
import { quoteName } from "../../core/names.ts";
import { createStatusError, type Fetch, fetchDocument, requireSafeUrl } from "./fetch-document.ts";
import { createInputError } from "./input-error.ts";
import type { InputResolver } from "./input-resolver.ts";
import type { BundleFile } from "./install-plan.ts";
import { fillTemplate, type ReferenceText } from "./reference-text.ts";
import { readZip, type ZipEntry } from "./zip.ts";

const settingSchema = z.union([z.string(), z.number(), z.boolean()]).transform(String);

const optionSchema = z.object({
  title: z.string().optional(),
  description: z.string().optional(),
  type: z.string().optional(),
  required: z.boolean().default(false),
  sensitive: z.boolean().default(false),
  multiple: z.boolean().default(false),
  default: z.union([settingSchema, z.array(settingSchema)]).optional(),
});

const runSchema = z.object({
  command: z.string().min(1).optional(),
  args: z.array(z.string()).optional(),
  env: z.record(z.string(), z.string()).optional(),
});

const manifestSchema = z.object({
  server: z.object({
    type: z.string().optional(),
    mcp_config: runSchema.extend({
      command: z.string().min(1),
      platform_overrides: z.record(z.string(), runSchema).default({}),
    }),
  }),
  user_config: z.record(z.string(), optionSchema).default({}),
  compatibility: z.object({ platforms: z.array(z.string()).optional() }).optional(),
});

type BundleManifest = z.output<typeof manifestSchema>;

const MANIFEST = "manifest.json";

/** Throws `invalid_arguments` if the manifest is missing or does not say how to start the bundle. */
export async function readBundleManifest(entries: readonly ZipEntry[]): Promise<BundleManifest> {
  const entry = entries.find(({ path }) => path === MANIFEST);
  if (entry === undefined || entry.size > 2 ** 20) throw createUnusableError(`its ${MANIFEST} is missing or too large`);
  let raw: unknown;
  try {
    raw = JSON.parse((await entry.bytes()).toString("utf8"));
  } catch {
    throw createUnusableError(`its ${MANIFEST} is not JSON`);
  }
  if (!isRecord(raw) || isLargerThan(raw, { nodes: 50_000, depth: 32 }))
    throw createUnusableError(`its ${MANIFEST} is not a manifest`);
  const parsed = manifestSchema.safeParse(raw);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const why = `${issue?.path.join(".")}: ${issue?.message}`;
  throw createUnusableError(`its ${MANIFEST} does not say how to start it (${why})`);
}

export interface BundlePlatform {
  readonly platform: string;
  /** The home folder. A bundle that refers to it cannot be installed without it. */
  readonly home?: string | undefined;
}

/** The launch of an unpacked bundle on this platform, with the user's answers filled in. */
export function createBundleLaunch(
  manifest: BundleManifest,
  folder: string,
  answers: InputResolver,
  { platform, home }: BundlePlatform,
) {
  const { platforms } = manifest.compatibility ?? {};
  if (platforms !== undefined && platforms.length > 0 && !platforms.includes(platform))
    throw createUnusableError(`it is for ${platforms.join(", ")}, and this is ${platform}`);
  const { platform_overrides, ...usual } = manifest.server.mcp_config;
  const own = getOwn(platform_overrides, platform) ?? {};
  const chosen = new Map(Object.entries(manifest.user_config).map(([key, asked]) => [key, chooseValues(key, asked)]));
  const command = resolveCommand(own.command ?? usual.command);
  const args = (own.args ?? usual.args ?? []).flatMap(expandArgument);
  const env = Object.entries({ ...usual.env, ...own.env }).map(([name, text]) => [name, fillVariables(text)] as const);
  // Omit a variable without a value: empty is not the same as unset.
  return { command, args, env: Object.fromEntries(env.filter(([, text]) => text.some((part) => part !== ""))) };

  function chooseValues(key: string, asked: z.output<typeof optionSchema>): readonly ReferenceText[] {
    const presets = [asked.default ?? []].flat().map((text) => fillTemplate(text, resolvePlaceholder, DOLLAR));
    const input = {
      isRequired: asked.required && presets.length === 0,
      isSecret: asked.sensitive,
      description: asked.description ?? asked.title,
      format: asked.type === "number" || asked.type === "boolean" ? asked.type : undefined,
    };
    const values = answers.values(input, { key, where: "variable" });
    return values.length === 0 ? presets : asked.multiple ? values : values.slice(0, 1);
  }

  /** An argument that is only a list expands to several arguments. */
  function expandArgument(text: string): readonly ReferenceText[] {
    const key = /^\$\{user_config\.([^{}]+)\}$/.exec(text)?.[1];
    return key === undefined ? [fillVariables(text)] : (chosen.get(key) ?? [[text]]);
  }

  function fillVariables(text: string): ReferenceText {
    return fillTemplate(text, variable, DOLLAR);
  }

  function variable(name: string): ReferenceText | undefined {
    if (!name.startsWith("user_config.")) return resolvePlaceholder(name);
    const values = chosen.get(name.slice("user_config.".length));
    return values?.flatMap((value, at) => (at === 0 ? value : [",", ...value]));
  }

  function resolvePlaceholder(name: string): ReferenceText | undefined {
    if (name === "__dirname") return [folder];
    if (name === "/" || name === "pathSeparator") return [sep];
    const below = getOwn(HOMES, name);
    if (below === undefined) return undefined;
    if (home === undefined) throw createUnusableError(`it needs the user folder ${name}, which is unknown`);
    return [join(home, below)];
  }

  /** A bundle may name its own program without a folder. Any other program is found on the PATH. */
  function resolveCommand(command: string): ReferenceText {
    const isOwn = command.includes("/") && !/^(?:\/|\$\{|[A-Za-z]:)/.test(command);
    return isOwn ? [join(folder, command)] : fillVariables(command);
  }
}

const DOLLAR = /\$\{([^{}]{1,100})\}/g;
const HOMES = { HOME: ".", DESKTOP: "Desktop", DOCUMENTS: "Documents", DOWNLOADS: "Downloads" };

function createUnusableError(why: string): QmError {
  const hint = "Choose another package of this server, or add its command.";
  return createInputError(`the bundle cannot be installed: ${toOneLine(why)}`, hint);
}

export interface BundleSource {
  readonly fetch: Fetch;
  /** The registry that named the bundle. Only a local registry may name a local address. */
  readonly registry?: string | undefined;
}

/**
 * Downloads a bundle and lists its files without unpacking them. Throws `registry_failed` if the download fails, and
 * `conflict` if the hash differs.
 */
export async function fetchBundle(
  { url: text, sha256 }: Pick<BundleFile, "url" | "sha256">,
  { fetch, registry }: BundleSource,
  signal?: AbortSignal,
): Promise<readonly ZipEntry[]> {
  const url = requireSafeUrl(text, "the bundle's address");
  if (isLoopback(url) && !(registry !== undefined && isLoopback(new URL(registry)))) {
    const hint = "Choose another package of this server.";
    throw createInputError(`the bundle's address ${quoteName(text)} is on this machine`, hint);
  }
  const size = { timeoutMs: 5 * 60_000, bytes: 256 * 2 ** 20 };
  const limits = { fetch, what: "the bundle", ...size, redirects: "https" } as const;
  const answer = await fetchDocument(url, limits, signal);
  if (answer.status !== 200) throw createStatusError(url, limits, answer);
  const found = hash("sha256", answer.bytes, "hex");
  if (found !== sha256) {
    const hint = "Nothing was unpacked. Do not install it: it may have been replaced.";
    const details = { expected_sha256: sha256, found_sha256: found };
    const message = `the bundle at ${url.origin}${url.pathname} is not the published one`;
    throw new QmError("conflict", message, { hint, details });
  }
  return readZip(answer.bytes, { entries: 50_000, bytes: 2 ** 30 });
}

/** Downloads a bundle and unpacks it, unless that was done before. The folder gets all its files or none. */
export async function unpackBundle(file: BundleFile, source: BundleSource, signal?: AbortSignal): Promise<void> {
  if (await isFolder(file.folder)) return;
  const entries = await fetchBundle(file, source, signal);
  const half = `${file.folder}.${randomUUID()}`;
  try {
    for (const entry of entries) {
      signal?.throwIfAborted();
      const path = join(half, entry.path);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await writeFile(path, await entry.bytes(), { flag: "wx", mode: entry.isExecutable ? 0o700 : 0o600 });
    }
    await rename(half, file.folder);
  } catch (thrown) {
    await rm(half, { recursive: true, force: true });
    // Another process unpacked the same files first.
    if (!(await isFolder(file.folder))) throw thrown;
  }
}

async function isFolder(folder: string): Promise<boolean> {
  const found = await stat(folder).catch(() => undefined);
  return found?.isDirectory() ?? false;
}
