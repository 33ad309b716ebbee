import { execFile } from "node:child_process";
import { parse } from "smol-toml";
import { QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { appendUrlPath, createStatusError, type Fetch, fetchDocument, requireSafeUrl } from "./fetch-document.ts";
import { createInputError } from "./input-error.ts";

export interface RepositoryLocation {
  readonly owner: string;
  readonly repository: string;
  /** A branch, tag or commit. Default: the default branch. */
  readonly ref?: string;
  /** Relative to the root, without leading or trailing slashes. Default: the root. */
  readonly folder?: string;
}

/** Lists the refs of a repository, as `git ls-remote` does: a commit, a tab and a name per line. */
export type LsRemote = (url: string, refs: readonly string[], signal?: AbortSignal) => Promise<string>;

const OWNER = /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})$/;
const REPOSITORY = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/;
const REF = /^[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,199}$/;
const SEGMENT = /^[A-Za-z0-9_@][A-Za-z0-9._@+-]{0,99}$/;
const COMMIT = /^[a-f0-9]{40}$/;

/** Parses `https://github.com/owner/name`, optionally with `/tree/<ref>/<folder>`, and `owner/name#ref`. */
export function parseRepository(text: string, ref?: string): RepositoryLocation {
  const path = text.replace(/^(?:git\+)?https:\/\/(?:www\.)?github\.com\/|^github:|^git@github\.com:/, "");
  const [place = "", fragment] = path.split("#", 2);
  const names = place
    .replace(/[?].*$/, "")
    .replace(/\/+$/, "")
    .split("/");
  const [owner = "", name = "", tree, branch, ...folders] = names;
  const repository = name.replace(/\.git$/, "");
  const isTree = tree === "tree" || tree === "blob";
  const folder = (isTree ? folders : [tree, branch, ...folders].filter((part) => part !== undefined)).join("/");
  const wanted = ref ?? fragment ?? (isTree ? branch : undefined);
  const fits = OWNER.test(owner) && REPOSITORY.test(repository) && !/\.\.|\/\/|^\/|\/$/.test(wanted ?? "");
  const isBad = folder !== "" && !folder.split("/").every((part) => SEGMENT.test(part));
  if (!fits || isBad || (wanted !== undefined && !REF.test(wanted)) || path.includes("://")) {
    const hint = "Use https://github.com/owner/name, or https://github.com/owner/name/tree/branch/folder.";
    throw createInputError(`${quoteName(text)} is not a repository on GitHub`, hint);
  }
  return { owner, repository, ...(wanted === undefined ? {} : { ref: wanted }), ...(folder === "" ? {} : { folder }) };
}

/** Throws `not_found` if the repository or ref does not exist. */
export async function resolveCommit(place: RepositoryLocation, lsRemote: LsRemote, signal?: AbortSignal) {
  const { owner, repository, ref } = place;
  if (ref !== undefined && COMMIT.test(ref)) return ref;
  const names = ref === undefined ? ["HEAD"] : [`refs/tags/${ref}^{}`, `refs/heads/${ref}`, `refs/tags/${ref}`];
  const asked = ref === undefined ? names : [`refs/heads/${ref}`, `refs/tags/${ref}`, `refs/tags/${ref}^{}`];
  const answer = await lsRemote(`https://github.com/${owner}/${repository}.git`, asked, signal);
  const lines = answer.split("\n").map((line) => line.trim().split("\t"));
  const commits = new Map(lines.map(([commit = "", name = ""]) => [name, commit]));
  const commit = names.map((name) => commits.get(name) ?? "").find((found) => COMMIT.test(found));
  if (commit !== undefined) return commit;
  const wanted = ref === undefined ? "default branch" : quoteName(ref);
  const hint = "Use an existing branch, tag or commit.";
  throw new QmError("not_found", `${owner}/${repository} has no ${wanted}`, { hint });
}

export type RepositoryManifest =
  | { readonly kind: "npm"; readonly name?: string; readonly hasProgram: boolean; readonly scripts: readonly string[] }
  | { readonly kind: "pypi"; readonly name: string; readonly programs: readonly string[] };

/**
 * Reads package.json, otherwise pyproject.toml, at a commit. Undefined if neither exists. `url` is the base URL of raw
 * files, such as https://raw.githubusercontent.com.
 */
export async function fetchRepositoryManifest(
  { owner, repository, folder }: RepositoryLocation,
  commit: string,
  { fetch, url }: { readonly fetch: Fetch; readonly url: string },
  signal?: AbortSignal,
): Promise<RepositoryManifest | undefined> {
  const read = async (file: string): Promise<string | undefined> => {
    const path = [owner, repository, commit, ...(folder === undefined ? [] : folder.split("/")), file];
    const base = requireSafeUrl(url, "GitHub's files");
    return fetchText(appendUrlPath(base, path.map(encodeURIComponent).join("/")), fetch, signal);
  };
  const packageJson = await read("package.json");
  if (packageJson !== undefined) return parseNpmManifest(packageJson);
  const pyproject = await read("pyproject.toml");
  return pyproject === undefined ? undefined : parsePythonManifest(pyproject);
}

function parseNpmManifest(text: string): RepositoryManifest {
  const manifest = parseManifest(text, "package.json", JSON.parse);
  const scripts = isRecord(manifest.scripts) ? Object.keys(manifest.scripts) : [];
  const bin = manifest.bin;
  return {
    kind: "npm",
    ...(typeof manifest.name === "string" ? { name: manifest.name } : {}),
    hasProgram: typeof bin === "string" || (isRecord(bin) && Object.keys(bin).length > 0),
    scripts: scripts.filter((script) => /^(?:pre|post)?(?:install|prepare)$/.test(script)),
  };
}

function parsePythonManifest(text: string): RepositoryManifest {
  const { project } = parseManifest(text, "pyproject.toml", parse);
  const name = isRecord(project) ? project.name : undefined;
  if (!isRecord(project) || typeof name !== "string") throw createManifestError("pyproject.toml");
  const scripts = isRecord(project.scripts) ? Object.keys(project.scripts) : [];
  return { kind: "pypi", name, programs: scripts.filter((program) => /^[\w][\w.-]*$/.test(program)) };
}

function parseManifest(text: string, file: string, read: (text: string) => unknown): Record<string, unknown> {
  try {
    const value = read(text);
    if (isRecord(value)) return value;
  } catch {
    // The details of a foreign file's syntax error do not help the user.
  }
  throw createManifestError(file);
}

async function fetchText(url: URL, fetch: Fetch, signal?: AbortSignal): Promise<string | undefined> {
  const limits = { fetch, what: "GitHub", timeoutMs: 15_000, bytes: 2 ** 20, redirects: "same-origin" } as const;
  const answer = await fetchDocument(url, limits, signal);
  if (answer.status === 404) return undefined;
  if (answer.status !== 200) throw createStatusError(url, limits, answer);
  return answer.bytes.toString("utf8");
}

function createManifestError(file: string): QmError {
  return createInputError(`the repository's ${file} cannot be read`, "Add the server by its command.");
}

/** Runs `git ls-remote` without a shell and without password prompts. */
export function createGitLsRemote(env: Readonly<Record<string, string | undefined>>): LsRemote {
  return (url, refs, signal) =>
    new Promise((resolve, reject) => {
      const quiet = { ...env, GIT_TERMINAL_PROMPT: "0", GIT_ASKPASS: "" };
      const options = { env: quiet, timeout: 30_000, maxBuffer: 2 ** 20, ...(signal === undefined ? {} : { signal }) };
      execFile("git", ["ls-remote", "--quiet", "--", url, ...refs], options, (failed, stdout) => {
        if (failed === null) return resolve(stdout);
        if (signal?.aborted) return reject(signal.reason);
        const [message, hint] =
          failed.code === "ENOENT"
            ? ["git is not installed", "Install git, or use a package registry."]
            : [`git cannot read ${quoteName(url)}`, "Check that the repository exists and is public."];
        reject(new QmError("registry_failed", message, { hint }));
      });
    });
}
