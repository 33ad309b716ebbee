import { z } from "zod";
import { isLargerThan, isRecord, type JsonObject, omitUndefined } from "../../core/json.ts";

/** Some entries have numbers and booleans instead of text. */
const text = z.union([z.string(), z.number(), z.boolean()]).transform(String).pipe(z.string().max(16_384));

const inputFields = {
  description: z.string().optional(),
  isRequired: z.boolean().default(false),
  isSecret: z.boolean().default(false),
  format: z.string().optional(),
  value: text.optional(),
  default: text.optional(),
  placeholder: text.optional(),
  choices: z.array(text).optional(),
};

const input = acceptSnakeCase(z.object(inputFields));
const variables = z.record(z.string(), input).optional();
const keyValue = acceptSnakeCase(z.object({ ...inputFields, name: z.string().min(1), variables }));
const argument = acceptSnakeCase(
  z.object({
    ...inputFields,
    type: z.enum(["positional", "named"]),
    name: z.string().optional(),
    valueHint: z.string().optional(),
    isRepeated: z.boolean().default(false),
    variables,
  }),
);

/** Old dumps have `transport_type` beside the URL. */
const remote = acceptSnakeCase(
  z.object({ type: z.string(), url: z.string().min(1), headers: z.array(keyValue).default([]), variables }),
  { transportType: "type" },
);

const transport = acceptSnakeCase(
  z.object({ type: z.string(), url: z.string().optional(), headers: z.array(keyValue).default([]) }),
);

/** Old dumps have `registry_name` and `name`. */
const packageSchema = acceptSnakeCase(
  z.object({
    registryType: z.string().min(1),
    identifier: z.string().min(1).max(2048),
    version: z.string().optional(),
    registryBaseUrl: z.string().optional(),
    fileSha256: z.string().optional(),
    runtimeHint: z.string().optional(),
    transport: transport.default({ type: "stdio", headers: [] }),
    runtimeArguments: z.array(argument).default([]),
    packageArguments: z.array(argument).default([]),
    environmentVariables: z.array(keyValue).default([]),
  }),
  { registryName: "registryType", name: "identifier" },
);

const serverSchema = acceptSnakeCase(
  z.object({
    name: z.string().min(1).max(300),
    version: z.string().min(1).max(300),
    description: z.string().default(""),
    title: z.string().optional(),
    websiteUrl: z.string().optional(),
    repository: acceptSnakeCase(z.object({ url: z.string().optional(), subfolder: z.string().optional() })).optional(),
    packages: z.array(z.unknown()).default([]),
    remotes: z.array(z.unknown()).default([]),
  }),
);

export type ServerInput = z.output<typeof input>;
export type KeyValueInput = z.output<typeof keyValue>;
export type PackageArgument = z.output<typeof argument>;
export type ServerPackage = z.output<typeof packageSchema>;
export type RemoteEndpoint = z.output<typeof remote>;

/** A server.json. Broken parts are left out and listed in `problems`. */
export interface ServerJson extends Readonly<Omit<z.output<typeof serverSchema>, "packages" | "remotes">> {
  readonly packages: readonly ServerPackage[];
  readonly remotes: readonly RemoteEndpoint[];
  /** Omitted packages and remotes. Half of one would start something else. */
  readonly problems: readonly string[];
}

/** Parses a server.json of any age, in camelCase or snake_case. */
export function parseServerJson(raw: unknown): { ok: true; server: ServerJson } | { ok: false; problem: string } {
  if (!isRecord(raw)) return { ok: false, problem: "it is not an object" };
  const parsed = serverSchema.safeParse(liftVersion(raw));
  if (!parsed.success) return { ok: false, problem: formatIssue(parsed.error) };
  const packages = parseItems(parsed.data.packages, packageSchema, "packages");
  const remotes = parseItems(parsed.data.remotes, remote, "remotes");
  const problems = [...packages.problems, ...remotes.problems];
  return { ok: true, server: { ...parsed.data, packages: packages.read, remotes: remotes.read, problems } };
}

/** Old dumps have the version one level down. */
function liftVersion(raw: Record<string, unknown>): Record<string, unknown> {
  const detail = raw.version_detail ?? raw.versionDetail;
  return raw.version === undefined && isRecord(detail) ? { ...raw, version: detail.version } : raw;
}

function parseItems<T>(items: readonly unknown[], schema: z.ZodType<T>, where: string) {
  const read: T[] = [];
  const problems: string[] = [];
  items.forEach((item, at) => {
    const parsed = schema.safeParse(item);
    if (parsed.success) read.push(parsed.data);
    else problems.push(`${where}[${at}]: ${formatIssue(parsed.error)}`);
  });
  return { read, problems };
}

function formatIssue(error: z.ZodError): string {
  const [issue] = error.issues;
  return issue === undefined ? "it cannot be read" : `${issue.path.join(".") || "it"}: ${issue.message}`;
}

/** Accepts keys in snake_case and by their `older` names. */
function acceptSnakeCase<T extends z.ZodType>(schema: T, older: Readonly<Record<string, string>> = {}) {
  return z.preprocess((value) => (isRecord(value) ? toCamelKeys(value, older) : value), schema);
}

function toCamelKeys(value: Record<string, unknown>, older: Readonly<Record<string, string>>): JsonObject {
  const camel = new Map<string, unknown>();
  for (const [key, part] of Object.entries(value)) {
    const name = /^[_$]/.test(key) ? key : key.replace(/_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
    if (part !== null && key !== "__proto__" && (name === key || !camel.has(name))) camel.set(name, part);
  }
  for (const [from, to] of Object.entries(older)) {
    if (camel.has(from) && !camel.has(to)) {
      camel.set(to, camel.get(from));
      camel.delete(from);
    }
  }
  return Object.fromEntries(camel) as JsonObject;
}

/** One version of a server in a registry. */
export interface RegistryEntry {
  readonly server: ServerJson;
  /** `active`, `deprecated` or `deleted`. Default: `active`. */
  readonly status: string;
  readonly statusMessage?: string;
  /** By the registry's clock. */
  readonly updatedAt?: string;
  /** The unchanged response. */
  readonly raw: JsonObject;
}

const OFFICIAL = "io.modelcontextprotocol.registry/official";

/** Parses one element of a registry's response: `{server, _meta}`, or a bare server.json. */
export function parseRegistryEntry(
  raw: unknown,
): { ok: true; entry: RegistryEntry } | { ok: false; name?: string; problem: string } {
  if (!isRecord(raw)) return { ok: false, problem: "it is not an object" };
  if (isLargerThan(raw, { nodes: 20_000, depth: 32 })) return { ok: false, problem: "it is too large or too deep" };
  const inner = isRecord(raw.server) ? raw.server : raw;
  const parsed = parseServerJson(inner);
  if (!parsed.ok)
    return { ok: false, problem: parsed.problem, ...(typeof inner.name === "string" ? { name: inner.name } : {}) };
  const meta = isRecord(raw._meta) ? raw._meta : {};
  const official = isRecord(meta[OFFICIAL]) ? meta[OFFICIAL] : {};
  const status = readText(official, "status") ?? readText(inner, "status") ?? "active";
  const statusMessage = readText(official, "statusMessage", "status_message");
  const updatedAt = readText(official, "updatedAt", "updated_at");
  const entry = { server: parsed.server, status, statusMessage, updatedAt, raw: raw as JsonObject };
  return { ok: true, entry: omitUndefined(entry) };
}

function readText(record: Record<string, unknown>, ...keys: readonly string[]): string | undefined {
  const found = keys.map((key) => record[key]).find((value) => typeof value === "string");
  return typeof found === "string" ? found : undefined;
}
