import { join } from "node:path";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { oneLine } from "../../core/plain-text.ts";
import type { Launch } from "../server-spec.ts";
import { type Answers, createAnswers, type Inputs } from "./answers.ts";
import { type BundleSource, fetchBundle } from "./bundle/bundle.ts";
import { bundleLaunch, manifestOf, type Surroundings } from "./bundle/bundle-launch.ts";
import { chosen } from "./choices.ts";
import { commandLine } from "./command-line.ts";
import { requireHttp, requireKey, writtenFor } from "./given-launch.ts";
import { type InstallPlan, type PlanDraft, sealed } from "./install-plan.ts";
import { chosenName, localName } from "./local-name.ts";
import { argumentsOf } from "./package-arguments.ts";
import { packageCommand } from "./package-command.ts";
import { filledText, written } from "./referring-text.ts";
import type { RegistryEntry } from "./registry-entry.ts";
import type { KeyValueInput, Package, Remote } from "./server-json.ts";
import { launchWarnings, lookalikeWarnings } from "./warnings.ts";

export interface RegistryPlanOptions extends Surroundings {
  /** The registry's URL, where the entry came from one. */
  readonly registry?: string | undefined;
  /** What to call it here. Absent: made from its own name. */
  readonly name?: string | undefined;
  /** One of `choicesOf` by its id. Absent: the preferred one. */
  readonly choose?: string | undefined;
  /** The names of the secrets that are stored. */
  readonly secrets: ReadonlySet<string>;
  /** Which programs are there. Absent: all are taken to be. */
  readonly hasCommand?: ((command: string) => boolean) | undefined;
  /** Where bundles are unpacked, absolute. */
  readonly bundleFolder: string;
  readonly fetch: BundleSource["fetch"];
}

type Drafted = Pick<PlanDraft, "launch" | "hosts" | "warnings" | "files"> & Partial<Pick<PlanDraft, "version">>;

/**
 * What installing a server of a registry would mean. Nothing is installed; a bundle is fetched and looked into, but not
 * unpacked. Required inputs that nobody gave are named in `missing`. Throws `invalid_arguments` for an input that does not
 * fit, and for a server that cannot be had.
 */
export async function planFromRegistry(
  entry: RegistryEntry,
  inputs: Inputs,
  options: RegistryPlanOptions,
  signal?: AbortSignal,
): Promise<InstallPlan> {
  const { server, status, statusMessage } = entry;
  if (status === "deleted") {
    throw new QmError("invalid_arguments", `${quoted(server.name)} was deleted from the registry`, {
      hint: "Take another server; what is deleted there is often broken or unsafe.",
    });
  }
  const choice = chosen(server, options.choose, options.hasCommand);
  const name = options.name === undefined ? localName(server.name) : chosenName(options.name);
  const answers = createAnswers({ inputs, server: name, secrets: options.secrets });
  const drafted =
    choice.kind === "remote"
      ? remoteDraft(choice.remote, answers)
      : await packageDraft(choice.pkg, answers, options, signal);
  answers.requireAllUsed();
  const said = statusMessage === undefined ? "" : `: ${quoted(statusMessage)}`;
  return sealed({
    name,
    version: server.version,
    source: `registry:${server.name}@${server.version} (${choice.id})`,
    ...(server.description === "" ? {} : { description: oneLine(server.description) }),
    ...drafted,
    missing: answers.missing,
    warnings: [
      ...(status === "active" ? [] : [`its publisher says that it is ${oneLine(status)}${said}`]),
      ...drafted.warnings,
      ...answers.warnings,
      ...launchWarnings(drafted.launch),
    ],
  });
}

function remoteDraft(remote: Remote, answers: Answers): Drafted {
  const asInput = { isRequired: true, isSecret: false, value: remote.url, variables: remote.variables };
  const text = answers.value(asInput, { key: "url", where: "variable" }) ?? [];
  const url = written(text, "url");
  if (text.every((part) => typeof part === "string")) requireHttp(url);
  const launch: Launch = { kind: "http", url, headers: keyValues(remote.headers, "header", answers) };
  return { launch, hosts: hostsIn(url), warnings: [] };
}

async function packageDraft(
  pkg: Package,
  answers: Answers,
  options: RegistryPlanOptions,
  signal: AbortSignal | undefined,
): Promise<Drafted> {
  if (pkg.registryType === "mcpb") return bundleDraft(pkg, answers, options, signal);
  const runtime = argumentsOf(pkg.runtimeArguments, answers);
  const own = argumentsOf(pkg.packageArguments, answers);
  const env = keyValues(pkg.environmentVariables, "env", answers);
  const { command, args, hosts, warnings } = packageCommand(pkg, { runtime, own, env: Object.keys(env) });
  const launch: Launch = { kind: "stdio", command, args: args.map((arg) => written(arg, "an argument")), env };
  const known = { hosts, warnings: [...warnings, ...lookalikeWarnings(pkg.identifier)] };
  return pkg.transport.type === "stdio" ? { launch, ...known } : servedDraft(pkg, launch, answers, known);
}

/** A package that serves HTTP: we can speak to it, but somebody has to have started it. */
function servedDraft(
  { transport }: Package,
  program: Launch,
  answers: Answers,
  { hosts, warnings }: Pick<Drafted, "hosts" | "warnings">,
): Drafted {
  const text = filledText(transport.url ?? "", (name) => answers.found.get(name));
  const url = written(text, "url");
  requireHttp(url);
  const headers = keyValues(transport.headers, "header", answers);
  return {
    launch: { kind: "http", url, headers },
    hosts: [...hosts, ...hostsIn(url)],
    warnings: [
      ...warnings,
      `it serves HTTP and is not started from here: somebody must keep it running with ${commandLine(program)}`,
      ...launchWarnings(program),
    ],
  };
}

async function bundleDraft(
  pkg: Package,
  answers: Answers,
  { bundleFolder, fetch, registry, platform, home }: RegistryPlanOptions,
  signal: AbortSignal | undefined,
): Promise<Drafted> {
  const sha256 = pkg.fileSha256?.toLowerCase() ?? "";
  if (!/^[a-f0-9]{64}$/.test(sha256)) {
    throw new QmError("invalid_arguments", "the entry does not say what the bundle's SHA-256 is", {
      hint: "It cannot be checked, so it is not taken. Choose another package of this server.",
    });
  }
  const file = { url: pkg.identifier, sha256, folder: join(bundleFolder, sha256) };
  const manifest = await manifestOf(await fetchBundle(file, { fetch, registry }, signal));
  const { command, args, env } = bundleLaunch(manifest, file.folder, answers, { platform, home });
  const launch: Launch = {
    kind: "stdio",
    command: written(command, "the command"),
    args: [...args, ...argumentsOf(pkg.packageArguments, answers)].map((arg) => written(arg, "an argument")),
    env: {
      ...Object.fromEntries(Object.entries(env).map(([name, text]) => [name, written(text, name)])),
      ...keyValues(pkg.environmentVariables, "env", answers),
    },
    cwd: file.folder,
  };
  return { launch, hosts: hostsIn(file.url), warnings: [], files: file };
}

function keyValues(
  asked: readonly KeyValueInput[],
  where: "env" | "header",
  answers: Answers,
): Readonly<Record<string, string>> {
  const found = new Map<string, string>();
  for (const input of asked) {
    requireKey(input.name, where);
    const text = answers.value(input, { key: input.name, where });
    if (text !== undefined) found.set(input.name, writtenFor(text, input.name, where));
  }
  return Object.fromEntries(found);
}

function hostsIn(url: string): readonly string[] {
  return URL.canParse(url) ? [new URL(url).host] : [];
}
