import { quoteName } from "../../core/names.ts";
import { createInputError } from "./input-error.ts";
import type { InputResolver, InputSpec } from "./input-resolver.ts";
import { isPinned, requireIdentifier, requireVersion, resolvePackageImage } from "./package-names.ts";
import { getLiteralText, type ReferenceText } from "./reference-text.ts";
import type { PackageArgument, ServerPackage } from "./server-json.ts";

/** Turns the arguments of a server.json into command line items. A named argument is two items. */
export function buildPackageArguments(args: readonly PackageArgument[], answers: InputResolver): Texts {
  const read = (argument: PackageArgument, asked: InputSpec): Texts => {
    if (argument.isRepeated) return answers.values(argument, asked);
    const text = answers.value(argument, asked);
    return text === undefined ? [] : [text];
  };
  return args.flatMap((argument, at): Texts => {
    const { type, name, valueHint } = argument;
    if (type !== "named" || name === undefined)
      return read(argument, { key: valueHint ?? name ?? `argument_${at + 1}`, where: "argument" });
    const also = [name.replace(/^-+/, "")];
    if (isSwitch(argument)) return answers.getText({ key: name, also }) === "false" ? [] : [[name]];
    return read(argument, { key: name, where: "argument", also }).flatMap((value) => [[name], value]);
  });
}

/** A flag without a value. It is present unless the answer is `false`. */
function isSwitch({ format, ...argument }: PackageArgument): boolean {
  const { value, default: preset, placeholder, choices, valueHint, variables } = argument;
  const takes = [value, preset, placeholder, choices, valueHint, variables].some((part) => part !== undefined);
  return !takes && (format === undefined || format === "boolean");
}

type Texts = readonly ReferenceText[];
type PackageCommand = { args: Texts; readonly hosts: readonly string[]; readonly warnings: readonly string[] };
/** `env` names the variables that a container must be given explicitly. */
type PackageCommandParts = { readonly runtime: Texts; readonly own: Texts; readonly env: readonly string[] };
type Builder = (pkg: ServerPackage, parts: PackageCommandParts) => PackageCommand;

/** Registry types and the programs that can run their packages. */
const runners: ReadonlyMap<string, { readonly commands: readonly string[]; readonly build: Builder }> = new Map([
  ["npm", { commands: ["npx"], build: npx }],
  ["pypi", { commands: ["uvx"], build: uvx }],
  ["oci", { commands: ["docker", "podman"], build: container }],
  ["nuget", { commands: ["dnx"], build: dnx }],
]);

export const isRunnable = (registryType: string): boolean => runners.has(registryType);

/** Chooses the program that runs a package. Ignores a hint that does not fit the registry type. */
export function getPackageRunner({ registryType, runtimeHint }: ServerPackage): string | undefined {
  const commands = runners.get(registryType)?.commands;
  return commands?.find((command) => command === runtimeHint) ?? commands?.[0];
}

export function buildPackageCommand(pkg: ServerPackage, parts: PackageCommandParts) {
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
  return { args, hosts: [base.host], warnings: [...base.warnings, ...getPinWarnings(pkg)] };
}

function uvx(pkg: ServerPackage, { runtime, own }: PackageCommandParts): PackageCommand {
  const base = resolveBaseUrl(pkg, "pypi.org");
  const from = base.isUsual ? [] : [["--default-index"], [`${base.url.replace(/\/+$/, "")}/simple`]];
  const spec = `${requireIdentifier(pkg, "pypi")}${formatVersion(pkg, "==")}`;
  const args = [...runtime, ...from, [spec], ...own];
  const hosts = base.isUsual ? ["pypi.org", "files.pythonhosted.org"] : [base.host];
  return { args, hosts, warnings: [...base.warnings, ...getPinWarnings(pkg)] };
}

function dnx(pkg: ServerPackage, { runtime, own }: PackageCommandParts): PackageCommand {
  const base = resolveBaseUrl(pkg, "api.nuget.org", "nuget.org", "www.nuget.org");
  const from = base.isUsual ? [] : [["--source"], [base.url]];
  const spec = `${requireIdentifier(pkg, "nuget")}${formatVersion(pkg, "@")}`;
  const rest = own.length === 0 ? [] : [["--"], ...own];
  const args = [...omitArguments(runtime, ["--yes", "-y"]), ...from, [spec], ["--yes"], ...rest];
  return { args, hosts: [base.host], warnings: [...base.warnings, ...getPinWarnings(pkg)] };
}

function container(pkg: ServerPackage, { runtime, own, env }: PackageCommandParts): PackageCommand {
  const { image, host, warnings } = resolvePackageImage(pkg);
  const flags = omitArguments(runtime, ["run", "-i", "--interactive", "--rm"]);
  const forwarded = env.flatMap((name): ReferenceText[] => [["-e"], [name]]);
  const args = [["run"], ["-i"], ["--rm"], ...flags, ...forwarded, [image], ...own];
  return { args, hosts: [host], warnings };
}

/** Arguments that the command already has, although some entries repeat them. */
function omitArguments(args: Texts, words: readonly string[]): Texts {
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
