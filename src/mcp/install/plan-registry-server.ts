import { join } from "node:path";
import { toOneLine } from "../../core/display-text.ts";
import { quoteName } from "../../core/names.ts";
import type { Launch } from "../server-spec.ts";
import { type BundlePlatform, createBundleLaunch, fetchBundle, readBundleManifest } from "./bundle.ts";
import type { Fetch } from "./fetch-document.ts";
import { createInputError } from "./input-error.ts";
import { createInputResolver, type InputResolver, type InstallInputs } from "./input-resolver.ts";
import { formatCommandLine, type InstallPlan, type InstallPlanDraft, sealPlan } from "./install-plan.ts";
import { formatPairValue, requireHttpUrl, requireKey, requireServerName, toLocalName } from "./launch-input.ts";
import { getLaunchWarnings, getLookalikeWarnings } from "./launch-warnings.ts";
import { buildPackageArguments, buildPackageCommand, getPackageRunner, isRunnable } from "./package-command.ts";
import { fillTemplate, formatReferenceText } from "./reference-text.ts";
import type { KeyValueInput, RegistryEntry, RemoteEndpoint, ServerJson, ServerPackage } from "./server-json.ts";

/** One way to run a server. It is chosen by its id: `npm`, `remote`, and `npm-2` for a second one of that kind. */
type InstallChoice =
  | { readonly id: string; readonly kind: "package"; readonly pkg: ServerPackage }
  | { readonly id: string; readonly kind: "remote"; readonly remote: RemoteEndpoint };
type HasCommand = (command: string) => boolean;

/**
 * The default order: local before remote, npx first because Node is installed. A package that serves HTTP is last,
 * because it must be started separately.
 */
const ORDER = ["npm", "pypi", "oci", "nuget", "mcpb", "remote"];

/** All ways to run a server, preferred first. `hasCommand` tells which programs are installed. */
export function listInstallChoices(server: ServerJson, hasCommand: HasCommand = () => true): readonly InstallChoice[] {
  const counts = new Map<string, number>();
  const nextId = (kind: string): string => {
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    return count === 1 ? kind : `${kind}-${count}`;
  };
  const all: readonly InstallChoice[] = [
    ...server.packages.map((pkg): InstallChoice => ({ id: nextId(pkg.registryType), kind: "package", pkg })),
    ...server.remotes.map((remote): InstallChoice => ({ id: nextId("remote"), kind: "remote", remote })),
  ];
  const ranks = new Map(all.map((choice) => [choice, rankChoice(choice, hasCommand)]));
  return [...all].sort((a, b) => (ranks.get(a) ?? 0) - (ranks.get(b) ?? 0));
}

/** The requested way, or the preferred one. Throws `invalid_arguments` if there is none. */
function chooseInstall(server: ServerJson, id: string | undefined, hasCommand?: HasCommand): InstallChoice {
  const choices = listInstallChoices(server, hasCommand);
  const usable = choices.filter((choice) => findProblem(choice) === undefined);
  const ids = usable.map((choice) => choice.id);
  const picked = id === undefined ? (usable[0] ?? choices[0]) : choices.find((choice) => choice.id === id);
  const instead = ids.length === 0 ? "Add its command or URL, if it has one." : `Choose: ${ids.join(", ")}.`;
  if (picked === undefined) {
    const what = id === undefined ? "no readable package or URL" : `no choice ${quoteName(id)}`;
    const broken = server.problems.length === 0 ? "" : ` (${quoteName(server.problems.join("; "))})`;
    throw createInputError(`${quoteName(server.name)} has ${what}${broken}`, instead);
  }
  const problem = findProblem(picked);
  if (problem === undefined) return picked;
  throw createInputError(`${quoteName(server.name)} cannot be installed that way: ${problem}`, instead);
}

function rankChoice(choice: InstallChoice, hasCommand: HasCommand): number {
  if (findProblem(choice) !== undefined) return 1000;
  if (choice.kind === "remote") return ORDER.indexOf("remote");
  const runner = getPackageRunner(choice.pkg);
  const served = choice.pkg.transport.type === "stdio" ? 0 : 200;
  return served + (runner === undefined || hasCommand(runner) ? 0 : 100) + ORDER.indexOf(choice.pkg.registryType);
}

function findProblem(choice: InstallChoice): string | undefined {
  const type = choice.kind === "remote" ? choice.remote.type : choice.pkg.transport.type;
  if (type === "sse") return "it supports only the deprecated SSE transport";
  const registryType = choice.kind === "package" ? choice.pkg.registryType : "mcpb";
  if (registryType !== "mcpb" && !isRunnable(registryType))
    return `packages of type ${quoteName(registryType)} are not supported`;
  const isKnown = type === "streamable-http" || (type === "stdio" && choice.kind === "package");
  return isKnown ? undefined : `unknown transport ${quoteName(type)}`;
}

export interface RegistryPlanOptions extends BundlePlatform {
  /** The URL of the registry, if the entry came from one. */
  readonly registry?: string | undefined;
  /** Default: derived from its full name. */
  readonly name?: string | undefined;
  /** The id of a choice. Default: the preferred one. */
  readonly choose?: string | undefined;
  readonly secrets: ReadonlySet<string>;
  /** Default: every program is assumed to be installed. */
  readonly hasCommand?: HasCommand | undefined;
  /** The absolute folder for unpacked bundles. */
  readonly bundleFolder: string;
  readonly fetch: Fetch;
}

type LaunchDraft = Pick<InstallPlanDraft, "launch" | "hosts" | "warnings" | "files"> &
  Partial<Pick<InstallPlanDraft, "version">>;

/**
 * Plans a server of a registry. Nothing is installed. A bundle is downloaded and inspected, but not unpacked. Required
 * inputs without an answer are listed in `missing`. Throws `invalid_arguments` for a bad input or an unusable server.
 */
export async function planFromRegistry(
  entry: RegistryEntry,
  inputs: InstallInputs,
  options: RegistryPlanOptions,
  signal?: AbortSignal,
): Promise<InstallPlan> {
  const { server, status, statusMessage } = entry;
  if (status === "deleted") {
    const hint = "Choose another server: deleted ones are often broken or unsafe.";
    throw createInputError(`${quoteName(server.name)} was deleted from the registry`, hint);
  }
  const choice = chooseInstall(server, options.choose, options.hasCommand);
  const name = options.name === undefined ? toLocalName(server.name) : requireServerName(options.name);
  const answers = createInputResolver({ inputs, server: name, secrets: options.secrets });
  const drafted =
    choice.kind === "remote"
      ? draftRemote(choice.remote, answers)
      : await draftRegistryPackage(choice.pkg, answers, options, signal);
  answers.requireAllUsed();
  const said = statusMessage === undefined ? "" : `: ${quoteName(statusMessage)}`;
  return sealPlan({
    name,
    version: server.version,
    source: `registry:${server.name}@${server.version} (${choice.id})`,
    ...(server.description === "" ? {} : { description: toOneLine(server.description) }),
    ...drafted,
    missing: answers.missing,
    warnings: [
      ...(status === "active" ? [] : [`its publisher marks it as ${toOneLine(status)}${said}`]),
      ...drafted.warnings,
      ...answers.warnings,
      ...getLaunchWarnings(drafted.launch),
    ],
  });
}

function draftRemote(remote: RemoteEndpoint, answers: InputResolver): LaunchDraft {
  const asInput = { isRequired: true, isSecret: false, value: remote.url, variables: remote.variables };
  const text = answers.value(asInput, { key: "url", where: "variable" }) ?? [];
  const url = formatReferenceText(text, "url");
  if (text.every((part) => typeof part === "string")) requireHttpUrl(url);
  const launch: Launch = { kind: "http", url, headers: resolveKeyValues(remote.headers, "header", answers) };
  return { launch, hosts: listHosts(url), warnings: [] };
}

async function draftRegistryPackage(
  pkg: ServerPackage,
  answers: InputResolver,
  options: RegistryPlanOptions,
  signal?: AbortSignal,
): Promise<LaunchDraft> {
  if (pkg.registryType === "mcpb") return draftBundle(pkg, answers, options, signal);
  const runtime = buildPackageArguments(pkg.runtimeArguments, answers);
  const own = buildPackageArguments(pkg.packageArguments, answers);
  const env = resolveKeyValues(pkg.environmentVariables, "env", answers);
  const { command, hosts, warnings, ...built } = buildPackageCommand(pkg, { runtime, own, env: Object.keys(env) });
  const args = built.args.map((arg) => formatReferenceText(arg, "an argument"));
  const launch: Launch = { kind: "stdio", command, args, env };
  const known = { hosts, warnings: [...warnings, ...getLookalikeWarnings(pkg.identifier)] };
  return pkg.transport.type === "stdio" ? { launch, ...known } : draftServed(pkg, answers, { launch, ...known });
}

/** A package that serves HTTP. It must be started separately. */
function draftServed({ transport }: ServerPackage, answers: InputResolver, drafted: LaunchDraft): LaunchDraft {
  const { launch: program, hosts, warnings } = drafted;
  const text = fillTemplate(transport.url ?? "", (name) => answers.found.get(name));
  const url = formatReferenceText(text, "url");
  requireHttpUrl(url);
  const headers = resolveKeyValues(transport.headers, "header", answers);
  return {
    launch: { kind: "http", url, headers },
    hosts: [...hosts, ...listHosts(url)],
    warnings: [
      ...warnings,
      `it serves HTTP and is not started by Quartermaster: keep it running with ${formatCommandLine(program)}`,
      ...getLaunchWarnings(program),
    ],
  };
}

async function draftBundle(
  pkg: ServerPackage,
  answers: InputResolver,
  { bundleFolder, fetch, registry, platform, home }: RegistryPlanOptions,
  signal?: AbortSignal,
): Promise<LaunchDraft> {
  const sha256 = pkg.fileSha256?.toLowerCase() ?? "";
  if (!/^[a-f0-9]{64}$/.test(sha256)) {
    const hint = "The bundle cannot be verified. Choose another package of this server.";
    throw createInputError("the entry has no SHA-256 of the bundle", hint);
  }
  const file = { url: pkg.identifier, sha256, folder: join(bundleFolder, sha256) };
  const manifest = await readBundleManifest(await fetchBundle(file, { fetch, registry }, signal));
  const { command, args, env } = createBundleLaunch(manifest, file.folder, answers, { platform, home });
  const texts = [...args, ...buildPackageArguments(pkg.packageArguments, answers)];
  const own = Object.entries(env).map(([name, text]) => [name, formatReferenceText(text, name)]);
  const launch: Launch = {
    kind: "stdio",
    command: formatReferenceText(command, "the command"),
    args: texts.map((arg) => formatReferenceText(arg, "an argument")),
    env: { ...Object.fromEntries(own), ...resolveKeyValues(pkg.environmentVariables, "env", answers) },
    cwd: file.folder,
  };
  return { launch, hosts: listHosts(file.url), warnings: [], files: file };
}

function resolveKeyValues(asked: readonly KeyValueInput[], where: "env" | "header", answers: InputResolver) {
  const pairs = asked.flatMap((input) => {
    requireKey(input.name, where);
    const text = answers.value(input, { key: input.name, where });
    return text === undefined ? [] : [[input.name, formatPairValue(text, input.name, where)] as const];
  });
  return Object.fromEntries(pairs);
}

const listHosts = (url: string): readonly string[] => (URL.canParse(url) ? [new URL(url).host] : []);
