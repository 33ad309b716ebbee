import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import {
  appendUrlPath,
  createStatusError,
  type Fetch,
  fetchDocument,
  parseJsonDocument,
  requireSafeUrl,
} from "./fetch-document.ts";
import { createInputError } from "./input-error.ts";
import { isPinned, requireIdentifier, requireVersion } from "./package-names.ts";

export interface PinnedPackage {
  readonly name: string;
  readonly version: string;
  readonly description?: string;
  /** The programs in the package. Empty if the registry does not say. */
  readonly programs: readonly string[];
  readonly warnings: readonly string[];
}

/** `url` is the URL of the registry or a mirror. */
type VersionSource = { readonly fetch: Fetch; readonly url: string };

/** Resolves a tag, or the latest version, of an npm package. Throws `not_found` and `registry_failed`. */
export async function resolveNpmVersion(
  identifier: string,
  wanted: string | undefined,
  { fetch, url }: VersionSource,
  signal?: AbortSignal,
): Promise<PinnedPackage> {
  const name = requireIdentifier({ identifier }, "npm");
  const tag = wanted === undefined || wanted === "" ? "latest" : requireVersion(wanted);
  requireNoRange(tag);
  const what = "the npm registry";
  const path = [...name.split("/"), tag].map(encodeURIComponent).join("/").replace("%40", "@");
  const found = await fetchFacts(appendUrlPath(requireSafeUrl(url, what), path), what, fetch, signal);
  const version = found?.version;
  if (found === undefined || typeof version !== "string" || !isPinned(version))
    throw createUnknownPackageError("npm", name, wanted);
  const scripts = isRecord(found.scripts) ? found.scripts : {};
  const runs = ["preinstall", "install", "postinstall"].filter((script) => typeof scripts[script] === "string");
  const warnings: string[] = [];
  const { deprecated } = found;
  if (typeof deprecated === "string") warnings.push(`${name} ${version} is deprecated: ${quoteName(deprecated)}`);
  if (runs.length > 0) warnings.push(`installing it runs its own scripts (${runs.join(", ")})`);
  return { name, version, ...toDescription(found.description), programs: listPrograms(name, found.bin), warnings };
}

/** The same for PyPI. */
export async function resolvePypiVersion(
  identifier: string,
  wanted: string | undefined,
  { fetch, url }: VersionSource,
  signal?: AbortSignal,
): Promise<PinnedPackage> {
  const name = requireIdentifier({ identifier }, "pypi");
  const version = wanted === undefined || wanted === "" || wanted === "latest" ? undefined : requireVersion(wanted);
  if (version !== undefined) requireNoRange(version);
  const [plainName = name] = name.split("[", 1);
  const parts = ["pypi", plainName, ...(version === undefined ? [] : [version]), "json"];
  const address = appendUrlPath(requireSafeUrl(url, "PyPI"), parts.map(encodeURIComponent).join("/"));
  const found = await fetchFacts(address, "PyPI", fetch, signal);
  const info = isRecord(found?.info) ? found.info : undefined;
  if (typeof info?.version !== "string" || !isPinned(info.version))
    throw createUnknownPackageError("PyPI", name, wanted);
  const warnings = info.yanked === true ? [`${name} ${info.version} was withdrawn by its publisher`] : [];
  return { name, version: info.version, ...toDescription(info.summary), programs: [], warnings };
}

/** Undefined for 404. */
async function fetchFacts(url: URL, what: string, fetch: Fetch, signal?: AbortSignal) {
  const limits = { fetch, what, timeoutMs: 15_000, bytes: 32 * 2 ** 20, redirects: "same-origin" } as const;
  const answer = await fetchDocument(url, limits, signal);
  if (answer.status === 404) return undefined;
  if (answer.status !== 200) throw createStatusError(url, limits, answer);
  const body = parseJsonDocument(url, limits, answer);
  return isRecord(body) ? body : undefined;
}

function listPrograms(name: string, bin: unknown): readonly string[] {
  if (typeof bin === "string") return [name.split("/").at(-1) ?? name];
  const isProgram = (program: string): boolean => /^[\w.@-]+$/.test(program) && !program.startsWith("-");
  return isRecord(bin) ? Object.keys(bin).filter(isProgram) : [];
}

function toDescription(text: unknown): { readonly description?: string } {
  return typeof text === "string" && text !== "" ? { description: toOneLine(text).slice(0, 500) } : {};
}

function requireNoRange(version: string): void {
  if (isPinned(version) || /^[a-z][\w.-]*$/i.test(version)) return;
  const hint = "Use an exact version, such as 1.2.3, or omit it for the latest.";
  throw createInputError(`${quoteName(version)} matches more than one version`, hint);
}

function createUnknownPackageError(where: string, name: string, version: string | undefined): QmError {
  const which = version === undefined || version === "" ? "" : ` of version ${quoteName(version)}`;
  const hint = "Check the spelling, or search the MCP registry.";
  return new QmError("not_found", `${where} has no package ${quoteName(name)}${which}`, { hint });
}
