import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { imageOf } from "./image-name.ts";
import { isPinned, requireIdentifier, requireVersion } from "./package-names.ts";
import { type ReferringText, wordsOf } from "./referring-text.ts";
import type { Package } from "./server-json.ts";

/** How a package is started, and what is to be said about that. */
export interface PackageCommand {
  readonly command: string;
  readonly args: readonly ReferringText[];
  readonly hosts: readonly string[];
  readonly warnings: readonly string[];
}

export interface CommandParts {
  readonly runtime: readonly ReferringText[];
  readonly own: readonly ReferringText[];
  /** The names of its variables, which a container is only given when told. */
  readonly env: readonly string[];
}

type Builder = (pkg: Package, parts: CommandParts) => PackageCommand;

/** Registry types whose packages a runner fetches and starts, with the programs that can. */
const runners: ReadonlyMap<string, { readonly commands: readonly string[]; readonly build: Builder }> = new Map([
  ["npm", { commands: ["npx"], build: npx }],
  ["pypi", { commands: ["uvx"], build: uvx }],
  ["oci", { commands: ["docker", "podman"], build: container }],
  ["nuget", { commands: ["dnx"], build: dnx }],
]);

export function isRunnable(registryType: string): boolean {
  return runners.has(registryType);
}

/** The program that a package is started with. A hint that does not fit its kind is only a hint. */
export function runnerOf({ registryType, runtimeHint }: Package): string | undefined {
  const commands = runners.get(registryType)?.commands;
  return commands?.find((command) => command === runtimeHint) ?? commands?.[0];
}

export function packageCommand(pkg: Package, parts: CommandParts): PackageCommand {
  const build = runners.get(pkg.registryType)?.build;
  const command = runnerOf(pkg);
  if (build === undefined || command === undefined) {
    throw new QmError("invalid_arguments", `packages of the kind ${quoted(pkg.registryType)} cannot be started`, {
      hint: `There are ${[...runners.keys(), "mcpb"].join(", ")}. Choose another package of it, or add its command yourself.`,
    });
  }
  const built = build(pkg, parts);
  const ignored = pkg.runtimeHint !== undefined && pkg.runtimeHint !== command;
  const hint = ignored ? [`its entry speaks of ${quoted(pkg.runtimeHint ?? "")}; ${command} starts it instead`] : [];
  return { ...built, command, warnings: [...hint, ...built.warnings] };
}

function npx(pkg: Package, { runtime, own }: CommandParts): PackageCommand {
  const base = baseOf(pkg, "registry.npmjs.org");
  const from = base.isUsual ? [] : [[`--registry=${base.url}`]];
  const spec = `${requireIdentifier(pkg, "npm")}${versionAfter(pkg, "@")}`;
  const args = [...without(runtime, ["-y", "--yes"]), ...from, ["-y"], [spec], ...own];
  return { command: "npx", args, hosts: [base.host], warnings: [...base.warnings, ...unpinned(pkg)] };
}

function uvx(pkg: Package, { runtime, own }: CommandParts): PackageCommand {
  const base = baseOf(pkg, "pypi.org");
  const from = base.isUsual ? [] : [["--default-index"], [`${base.url.replace(/\/+$/, "")}/simple`]];
  const spec = `${requireIdentifier(pkg, "pypi")}${versionAfter(pkg, "==")}`;
  return {
    command: "uvx",
    args: [...runtime, ...from, [spec], ...own],
    hosts: base.isUsual ? ["pypi.org", "files.pythonhosted.org"] : [base.host],
    warnings: [...base.warnings, ...unpinned(pkg)],
  };
}

function dnx(pkg: Package, { runtime, own }: CommandParts): PackageCommand {
  const base = baseOf(pkg, "api.nuget.org", "nuget.org", "www.nuget.org");
  const from = base.isUsual ? [] : [["--source"], [base.url]];
  const spec = `${requireIdentifier(pkg, "nuget")}${versionAfter(pkg, "@")}`;
  const rest = own.length === 0 ? [] : [["--"], ...own];
  const args = [...without(runtime, ["--yes", "-y"]), ...from, [spec], ["--yes"], ...rest];
  return { command: "dnx", args, hosts: [base.host], warnings: [...base.warnings, ...unpinned(pkg)] };
}

function container(pkg: Package, { runtime, own, env }: CommandParts): PackageCommand {
  const { image, host, warnings } = imageOf(pkg);
  const flags = without(runtime, ["run", "-i", "--interactive", "--rm"]);
  const forwarded = env.flatMap((name): ReferringText[] => [["-e"], [name]]);
  const args = [["run"], ["-i"], ["--rm"], ...flags, ...forwarded, [image], ...own];
  return { command: "docker", args, hosts: [host], warnings };
}

/** What the command has anyway, and some entries say again. */
function without(args: readonly ReferringText[], words: readonly string[]): readonly ReferringText[] {
  return args.filter((arg) => !words.includes(wordsOf(arg)));
}

function versionAfter(pkg: Package, separator: string): string {
  return pkg.version === undefined || pkg.version === "" ? "" : `${separator}${requireVersion(pkg.version)}`;
}

function unpinned({ version, identifier }: Package): readonly string[] {
  if (version !== undefined && isPinned(version)) return [];
  return [`${identifier} has no exact version: what is run can change from one start to the next`];
}

function baseOf({ registryBaseUrl }: Package, ...usual: readonly string[]) {
  const [first = ""] = usual;
  if (registryBaseUrl === undefined || registryBaseUrl === "")
    return { isUsual: true, host: first, url: "", warnings: [] };
  const url = URL.canParse(registryBaseUrl) ? new URL(registryBaseUrl) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== "") {
    throw new QmError("invalid_arguments", `its package comes from ${quoted(registryBaseUrl)}, which is no address`, {
      hint: "Choose another package of it, or add its command yourself.",
    });
  }
  const isUsual = usual.includes(url.hostname);
  const warnings = isUsual ? [] : [`its package does not come from ${first} but from ${url.host}`];
  return { isUsual, host: isUsual ? first : url.host, url: url.href, warnings };
}
