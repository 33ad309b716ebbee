import { quoteName } from "../../core/names.ts";
import { createInputError } from "./input-error.ts";
import type { InputResolver } from "./input-resolver.ts";
import { isPinned, requireIdentifier, requireVersion, resolvePackageImage } from "./package-names.ts";
import { getLiteralText, type ReferenceText } from "./reference-text.ts";
import type { PackageArgument, ServerPackage } from "./server-json.ts";

/** Turns the arguments of a server.json into command line items. A named argument is two items. */
export function buildPackageArguments(
  args: readonly PackageArgument[],
  answers: InputResolver,
): readonly ReferenceText[] {
  return args.flatMap((argument, at) =>
    argument.type === "named" && argument.name !== undefined
      ? buildNamed({ ...argument, name: argument.name }, answers)
      : buildPositional(argument, answers, at),
  );
}

function buildPositional(argument: PackageArgument, answers: InputResolver, at: number): readonly ReferenceText[] {
  const asked = { key: argument.valueHint ?? argument.name ?? `argument_${at + 1}`, where: "argument" } as const;
  if (argument.isRepeated) return answers.values(argument, asked);
  const text = answers.value(argument, asked);
  return text === undefined ? [] : [text];
}

function buildNamed(
  argument: PackageArgument & { readonly name: string },
  answers: InputResolver,
): readonly ReferenceText[] {
  const { name } = argument;
  const also = [name.replace(/^-+/, "")];
  if (isSwitch(argument)) return answers.getText({ key: name, also }) === "false" ? [] : [[name]];
  const asked = { key: name, where: "argument", also } as const;
  const one = argument.isRepeated ? undefined : answers.value(argument, asked);
  const values = argument.isRepeated ? answers.values(argument, asked) : one === undefined ? [] : [one];
  return values.flatMap((value): ReferenceText[] => [[name], value]);
}

/** A flag without a value. It is present unless the answer is `false`. */
function isSwitch({
  value,
  default: preset,
  placeholder,
  choices,
  valueHint,
  format,
  variables,
}: PackageArgument): boolean {
  const takes = [value, preset, placeholder, choices, valueHint, variables].some((part) => part !== undefined);
  return !takes && (format === undefined || format === "boolean");
}

interface PackageCommand {
  readonly command: string;
  readonly args: readonly ReferenceText[];
  readonly hosts: readonly string[];
  readonly warnings: readonly string[];
}

interface PackageCommandParts {
  readonly runtime: readonly ReferenceText[];
  readonly own: readonly ReferenceText[];
  /** Variables that a container must be given explicitly. */
  readonly env: readonly string[];
}

type Builder = (pkg: ServerPackage, parts: PackageCommandParts) => PackageCommand;

/** Registry types and the programs that can run their packages. */
const runners: ReadonlyMap<string, { readonly commands: readonly string[]; readonly build: Builder }> = new Map([
  ["npm", { commands: ["npx"], build: npx }],
  ["pypi", { commands: ["uvx"], build: uvx }],
  ["oci", { commands: ["docker", "podman"], build: container }],
  ["nuget", { commands: ["dnx"], build: dnx }],
]);

export function isRunnable(registryType: string): boolean {
  return runners.has(registryType);
}

/** Chooses the program that runs a package. Ignores a hint that does not fit the registry type. */
export function getPackageRunner({ registryType, runtimeHint }: ServerPackage): string | undefined {
  const commands = runners.get(registryType)?.commands;
  return commands?.find((command) => command === runtimeHint) ?? commands?.[0];
}

export function buildPackageCommand(pkg: ServerPackage, parts: PackageCommandParts): PackageCommand {
  const build = runners.get(pkg.registryType)?.build;
  const command = getPackageRunner(pkg);
  if (build === undefined || command === undefined) {
    const hint = `Supported: ${[...runners.keys(), "mcpb"].join(", ")}. Choose another package, or add its command.`;
    throw createInputError(`packages of type ${quoteName(pkg.registryType)} are not supported`, hint);
  }
  const built = build(pkg, parts);
  const ignored = pkg.runtimeHint !== undefined && pkg.runtimeHint !== command;
  const hint = ignored ? [`its entry names ${quoteName(pkg.runtimeHint ?? "")}; ${command} is used instead`] : [];
  return { ...built, command, warnings: [...hint, ...built.warnings] };
}

function npx(pkg: ServerPackage, { runtime, own }: PackageCommandParts): PackageCommand {
  const base = resolveBaseUrl(pkg, "registry.npmjs.org");
  const from = base.isUsual ? [] : [[`--registry=${base.url}`]];
  const spec = `${requireIdentifier(pkg, "npm")}${formatVersion(pkg, "@")}`;
  const args = [...omitArguments(runtime, ["-y", "--yes"]), ...from, ["-y"], [spec], ...own];
  return { command: "npx", args, hosts: [base.host], warnings: [...base.warnings, ...getPinWarnings(pkg)] };
}

function uvx(pkg: ServerPackage, { runtime, own }: PackageCommandParts): PackageCommand {
  const base = resolveBaseUrl(pkg, "pypi.org");
  const from = base.isUsual ? [] : [["--default-index"], [`${base.url.replace(/\/+$/, "")}/simple`]];
  const spec = `${requireIdentifier(pkg, "pypi")}${formatVersion(pkg, "==")}`;
  return {
    command: "uvx",
    args: [...runtime, ...from, [spec], ...own],
    hosts: base.isUsual ? ["pypi.org", "files.pythonhosted.org"] : [base.host],
    warnings: [...base.warnings, ...getPinWarnings(pkg)],
  };
}

function dnx(pkg: ServerPackage, { runtime, own }: PackageCommandParts): PackageCommand {
  const base = resolveBaseUrl(pkg, "api.nuget.org", "nuget.org", "www.nuget.org");
  const from = base.isUsual ? [] : [["--source"], [base.url]];
  const spec = `${requireIdentifier(pkg, "nuget")}${formatVersion(pkg, "@")}`;
  const rest = own.length === 0 ? [] : [["--"], ...own];
  const args = [...omitArguments(runtime, ["--yes", "-y"]), ...from, [spec], ["--yes"], ...rest];
  return { command: "dnx", args, hosts: [base.host], warnings: [...base.warnings, ...getPinWarnings(pkg)] };
}

function container(pkg: ServerPackage, { runtime, own, env }: PackageCommandParts): PackageCommand {
  const { image, host, warnings } = resolvePackageImage(pkg);
  const flags = omitArguments(runtime, ["run", "-i", "--interactive", "--rm"]);
  const forwarded = env.flatMap((name): ReferenceText[] => [["-e"], [name]]);
  const args = [["run"], ["-i"], ["--rm"], ...flags, ...forwarded, [image], ...own];
  return { command: "docker", args, hosts: [host], warnings };
}

/** Arguments that the command already has, although some entries repeat them. */
function omitArguments(args: readonly ReferenceText[], words: readonly string[]): readonly ReferenceText[] {
  return args.filter((arg) => !words.includes(getLiteralText(arg)));
}

function formatVersion(pkg: ServerPackage, separator: string): string {
  return pkg.version === undefined || pkg.version === "" ? "" : `${separator}${requireVersion(pkg.version)}`;
}

function getPinWarnings({ version, identifier }: ServerPackage): readonly string[] {
  if (version !== undefined && isPinned(version)) return [];
  return [`${identifier} has no exact version: the code can change between starts`];
}

function resolveBaseUrl({ registryBaseUrl }: ServerPackage, ...usual: readonly string[]) {
  const [first = ""] = usual;
  if (registryBaseUrl === undefined || registryBaseUrl === "")
    return { isUsual: true, host: first, url: "", warnings: [] };
  const url = URL.canParse(registryBaseUrl) ? new URL(registryBaseUrl) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== "") {
    const hint = "Choose another package, or add its command.";
    throw createInputError(`its package comes from ${quoteName(registryBaseUrl)}, which is not a URL`, hint);
  }
  const isUsual = usual.includes(url.hostname);
  const warnings = isUsual ? [] : [`its package does not come from ${first} but from ${url.host}`];
  return { isUsual, host: isUsual ? first : url.host, url: url.href, warnings };
}
