import { omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { StdioLaunch } from "../server-spec.ts";
import type { Fetch } from "./fetch-document.ts";
import { fetchRepositoryManifest, type LsRemote, parseRepository, resolveCommit } from "./github.ts";
import { createInputError } from "./input-error.ts";
import { type InstallPlan, type InstallPlanDraft, sealPlan } from "./install-plan.ts";
import { checkArguments, checkPairs, requireServerName, toLocalName } from "./launch-input.ts";
import { getLaunchWarnings, getLookalikeWarnings } from "./launch-warnings.ts";
import { getImageWarnings, parseImage } from "./package-names.ts";
import { type PinnedPackage, resolveNpmVersion, resolvePypiVersion } from "./package-versions.ts";

export interface PackageRequest {
  readonly kind: "npm" | "pypi" | "docker" | "github";
  readonly identifier: string;
  readonly version?: string | undefined;
  readonly name?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

export interface PackagePlanOptions {
  readonly fetch: Fetch;
  /** The npm registry. Default: https://registry.npmjs.org. */
  readonly npmUrl?: string | undefined;
  /** Default: https://pypi.org. */
  readonly pypiUrl?: string | undefined;
  /** Default: https://raw.githubusercontent.com. */
  readonly githubFilesUrl?: string | undefined;
  readonly lsRemote: LsRemote;
}

type CheckedRequest = PackageRequest & Required<Pick<StdioLaunch, "args" | "env">>;
type PackageDraft = Pick<InstallPlanDraft, "source" | "hosts" | "warnings" | "description"> &
  Pick<StdioLaunch, "command" | "args"> & { readonly version: string; readonly of: string };
type Draft = (given: CheckedRequest, deps: PackagePlanOptions, signal?: AbortSignal) => Promise<PackageDraft>;

/** Plans a package and pins its version: the latest one is looked up and written down. */
export async function planFromPackage(
  request: PackageRequest,
  deps: PackagePlanOptions,
  signal?: AbortSignal,
): Promise<InstallPlan> {
  const given = { ...request, args: checkArguments(request.args ?? []), env: checkPairs(request.env ?? {}, "env") };
  const draft = { npm: draftNpm, pypi: draftPypi, docker: draftDocker, github: draftGithub }[request.kind];
  const { command, args, of, ...facts } = await draft(given, deps, signal);
  const launch: StdioLaunch = { kind: "stdio", command, args, env: given.env };
  return sealPlan({
    name: request.name === undefined ? toLocalName(of) : requireServerName(request.name),
    launch,
    ...facts,
    missing: [],
    warnings: [...facts.warnings, ...getLookalikeWarnings(of), ...getLaunchWarnings(launch)],
  });
}

const draftNpm: Draft = async (given, { fetch, npmUrl: url = "https://registry.npmjs.org" }, signal) => {
  const [identifier, version] = splitVersion(given, "@");
  const pinned = await resolveNpmVersion(identifier, version, { fetch, url }, signal);
  const spec = `${pinned.name}@${pinned.version}`;
  const { run, warnings } = chooseProgram(pinned, spec);
  return {
    ...pickFacts(pinned),
    command: "npx",
    args: ["-y", ...run, ...given.args],
    source: `npm:${spec}`,
    hosts: [new URL(url).host],
    warnings: [...pinned.warnings, ...warnings],
  };
};

const draftPypi: Draft = async (given, { fetch, pypiUrl: url = "https://pypi.org" }, signal) => {
  const [identifier, version] = splitVersion(given, "==");
  const pinned = await resolvePypiVersion(identifier, version, { fetch, url }, signal);
  const spec = `${pinned.name}==${pinned.version}`;
  const host = new URL(url).host;
  return {
    ...pickFacts(pinned),
    command: "uvx",
    args: [spec, ...given.args],
    source: `pypi:${spec}`,
    hosts: host === "pypi.org" ? [host, "files.pythonhosted.org"] : [host],
    warnings: pinned.warnings,
  };
};

const draftDocker: Draft = async ({ identifier, version, args, env }) => {
  const asked = parseImage(identifier);
  const isNamed = asked.tag !== undefined || asked.digest !== undefined;
  const separator = version?.startsWith("sha256:") ? "@" : ":";
  const image = isNamed || version === undefined ? asked : parseImage(`${identifier}${separator}${version}`);
  if (image.digest === undefined && (image.tag === undefined || image.tag === "latest")) {
    const hint = "Use a version tag, such as name:1.2.3, or better a digest, such as name@sha256:...";
    throw createInputError(`${quoteName(image.image)} has no fixed version`, hint);
  }
  const forwarded = Object.keys(env).flatMap((name) => ["-e", name]);
  return {
    command: "docker",
    args: ["run", "-i", "--rm", ...forwarded, image.image, ...args],
    version: image.digest ?? image.tag ?? "",
    of: image.image.replace(/@.*$/, "").replace(/:[^/]*$/, ""),
    source: `docker:${image.image}`,
    hosts: [image.host],
    warnings: getImageWarnings(image),
  };
};

const draftGithub: Draft = async (given, deps, signal) => {
  const place = parseRepository(given.identifier, given.version);
  const commit = await resolveCommit(place, deps.lsRemote, signal);
  const files = { fetch: deps.fetch, url: deps.githubFilesUrl ?? "https://raw.githubusercontent.com" };
  const manifest = await fetchRepositoryManifest(place, commit, files, signal);
  const { owner, repository, folder } = place;
  if (manifest === undefined) throw createNoManifestError(place);
  // Packages of this repository work only in their published form.
  if (`${owner}/${repository}`.toLowerCase() === "modelcontextprotocol/servers") {
    const published = { ...given, identifier: manifest.name ?? "", version: undefined };
    if (folder === undefined) throw createNoManifestError(place);
    return manifest.kind === "npm" ? draftNpm(published, deps, signal) : draftPypi(published, deps, signal);
  }
  const at = {
    version: commit,
    source: `github:${owner}/${repository}@${commit}${folder === undefined ? "" : `/${folder}`}`,
    of: folder ?? repository,
  };
  if (manifest.kind === "pypi") {
    const below = folder === undefined ? "" : `#subdirectory=${folder}`;
    const from = `git+https://github.com/${owner}/${repository}@${commit}${below}`;
    const program = manifest.programs.find((name) => name === manifest.name) ?? manifest.programs[0] ?? manifest.name;
    const warnings = ["it is built from source on this machine; its dependencies are not pinned"];
    const args = ["--from", from, program, ...given.args];
    return { ...at, command: "uvx", args, hosts: ["github.com", "pypi.org"], warnings };
  }
  if (folder !== undefined) {
    const name = manifest.name === undefined ? "" : ` npm:${manifest.name}`;
    const hint = `Install the package${name} if it is published, or clone the repository and add its command.`;
    throw createInputError("npm cannot install a folder of a repository", hint);
  }
  if (!manifest.hasProgram) {
    const hint = "Clone and build it as its README says, then add its command.";
    throw createInputError(`${owner}/${repository} has no program that npx can start`, hint);
  }
  const scripts = manifest.scripts.length === 0 ? "" : `, with its own scripts (${manifest.scripts.join(", ")})`;
  const warnings = [`it is built from source on this machine${scripts}; its dependencies are not pinned`];
  const args = ["-y", `github:${owner}/${repository}#${commit}`, ...given.args];
  return { ...at, command: "npx", args, hosts: ["github.com", "registry.npmjs.org"], warnings };
};

/** Splits `name@1.2.3`. The `@` of a scope is not a version. */
function splitVersion({ identifier, version }: CheckedRequest, separator: string) {
  const at = identifier.lastIndexOf(separator);
  if (version !== undefined || at <= 0) return [identifier, version] as const;
  return [identifier.slice(0, at), identifier.slice(at + separator.length)] as const;
}

const pickFacts = ({ name, version, description }: PinnedPackage) => omitUndefined({ of: name, version, description });

/** npx runs the program named like the package, or the only one. Otherwise one must be chosen. */
function chooseProgram({ name, programs }: PinnedPackage, spec: string) {
  const own = name.split("/").at(-1) ?? name;
  if (programs.length === 0) return { run: [spec], warnings: [`${name} declares no program: it may not be a server`] };
  if (programs.length === 1 || programs.includes(own)) return { run: [spec], warnings: [] };
  const program = programs.find((one) => one.includes("mcp")) ?? programs[0] ?? own;
  const warnings = [`${name} has several programs (${programs.join(", ")}); ${program} is started`];
  return { run: [`--package=${spec}`, "--", program], warnings };
}

function createNoManifestError({ owner, repository, folder }: ReturnType<typeof parseRepository>) {
  const where = folder === undefined ? `${owner}/${repository}` : `${folder} in ${owner}/${repository}`;
  const example = "https://github.com/owner/name/tree/main/src/folder";
  const hint = `Use the URL of the server's folder, such as ${example}, or add its command.`;
  return createInputError(`${where} has no package.json and no pyproject.toml of a server`, hint);
}
