import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { basename, dirname, relative } from "node:path";
import type { Environment } from "../../config/references.ts";
import { createSecretNameMatcher } from "../../ledger/secret-names.ts";
import { findSecretSpans } from "../../ledger/secret-text.ts";
import { extractSecrets } from "../../mcp/clients/extract-secrets.ts";
import type { ServerEntry } from "../../mcp/clients/server-entry.ts";
import { getLinkKeyPath, getSecretsPath, getTokenPath } from "../../workspace/state-paths.ts";
import type { Workspace, WorkspaceOptions } from "../../workspace/workspace.ts";
import { type DoctorCheck, fail, warn } from "./environment-checks.ts";

/** Finds secrets that git has or would commit. Quiet without git and outside of a work tree. Shows no secret. */
export async function checkGit(
  { configPath, config, storePath }: Workspace,
  { cwd, env }: Pick<WorkspaceOptions, "cwd" | "env">,
): Promise<readonly DoctorCheck[]> {
  const paths = [getSecretsPath, getTokenPath, getLinkKeyPath].map((getPath) => getPath(storePath));
  const states = await Promise.all(
    // The store holds the arguments of waiting calls as they are.
    [...paths, storePath]
      .filter((path) => existsSync(path))
      .map(async (path) => ({ path: relative(cwd, path), state: await readGitState(path, env) })),
  );
  const listPaths = (state: GitState) => states.filter((each) => each.state === state).map(({ path }) => path);
  const [committed, uncommitted] = [listPaths("tracked"), listPaths("untracked")];
  const literals = configPath === undefined ? [] : await findLiteralSecrets(config.servers);
  const isShared = literals.length > 0 && (await readGitState(configPath ?? "", env)) !== undefined;
  const remove = `Run \`git rm --cached ${committed.join(" ")}\`, add ${committed.length === 1 ? "it" : "them"} to .gitignore, and replace the secrets.`;
  const store = `Store them with \`qm secrets set NAME\` and refer to them as \${secret:NAME}.`;
  return [
    ...(committed.length === 0 ? [] : [fail("git", `git has ${committed.join(", ")}`, remove)]),
    ...(uncommitted.length === 0
      ? []
      : [
          warn(
            "git",
            `git would commit ${uncommitted.join(", ")}`,
            `Add ${uncommitted.length === 1 ? "it" : "them"} to .gitignore.`,
          ),
        ]),
    ...(isShared ? [warn("git", `git would commit the secrets in ${literals.join(", ")}`, store)] : []),
  ];
}

/** Finds plain-text secrets of servers, by the same detection that an import uses. Returns their keys. */
async function findLiteralSecrets(servers: Workspace["config"]["servers"]): Promise<readonly string[]> {
  const judge = { isSecretName: createSecretNameMatcher(), findSpans: (text: string) => findSecretSpans(text, []) };
  const found = await Promise.all(
    Object.entries(servers).map(async ([name, { command, args, env, url, headers }]) => {
      const entry = (url === undefined ? { command, args, env } : { url, headers }) as ServerEntry;
      const { secrets } = await extractSecrets(name, entry, judge, async (wanted) => wanted);
      return secrets.map(({ where }) => `servers.${name}.${where}`);
    }),
  );
  return found.flat();
}

type GitState = "tracked" | "untracked";

/** Undefined for an ignored file, outside of a work tree, and without git. */
async function readGitState(path: string, env: Environment): Promise<GitState | undefined> {
  // 0: ignored. 1: not ignored, or tracked. 128: not in a work tree.
  if ((await runGit(path, env, ["check-ignore", "-q"])) !== 1) return undefined;
  return (await runGit(path, env, ["ls-files", "--error-unmatch"])) === 0 ? "tracked" : "untracked";
}

const GIT_TIMEOUT_MS = 5_000;

/** The exit code of a git command about a file. Undefined if git cannot be run, or takes too long. */
function runGit(path: string, env: Environment, args: readonly string[]): Promise<number | undefined> {
  return new Promise((resolve) => {
    // The repository may come from another person, and its configuration can name programs: run no monitor, fetch no missing
    // objects, and take no committed folder for a repository.
    const safe = ["-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit", "-c", "protocol.allow=never"];
    const words = [...safe, ...args, "--", basename(path)];
    const quiet = { GIT_NO_LAZY_FETCH: "1", GIT_ALLOW_PROTOCOL: "", GIT_TERMINAL_PROMPT: "0" };
    const options = { cwd: dirname(path), env: { ...env, ...quiet }, timeout: GIT_TIMEOUT_MS };
    const child = execFile("git", words, options, () => resolve(child.exitCode ?? undefined));
  });
}
