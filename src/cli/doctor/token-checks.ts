import { readFile } from "node:fs/promises";
import { getErrorMessage } from "../../core/errors.ts";
import { MIN_TOKEN_LENGTH } from "../../http/approvers.ts";
import { getTokenPath } from "../../workspace/state-paths.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type DoctorCheck, warn } from "./environment-checks.ts";

export const TOKEN_TODO = "Use a random token, for example from `openssl rand -base64 32`.";

/** Finds profiles that no client can use over HTTP, and tokens that can be guessed. Never shows a token. */
export async function checkProfileTokens(workspace: Workspace): Promise<readonly DoctorCheck[]> {
  const configured = Object.entries(workspace.config.gateway.profiles).flatMap(([name, { token }]) => {
    if (token === undefined && name !== "default") {
      const todo = `Set gateway.profiles.${name}.token to \${env:NAME} or \${secret:NAME}, or use it over stdio only.`;
      return [warn("profile", `${name} has no token: no client can use it over HTTP`, todo)];
    }
    const problem = findTokenProblem(workspace, `gateway.profiles.${name}.token`, token);
    return problem === undefined ? [] : [warn("profile", `${name}: ${problem}`, TOKEN_TODO)];
  });
  const path = getTokenPath(workspace.storePath);
  const created = await readFile(path, "utf8").catch(() => undefined);
  const weakness = created === undefined ? undefined : findTokenWeakness(created.trim());
  if (weakness === undefined) return configured;
  return [...configured, warn("profile", `${path}: ${weakness}`, "Remove the file. `qm serve` creates a new one.")];
}

/** Why a configured token cannot be used, or should not. */
export function findTokenProblem({ fill }: Workspace, key: string, token: string | undefined): string | undefined {
  if (token === undefined) return undefined;
  try {
    return findTokenWeakness(fill(token, key));
  } catch (thrown) {
    return getErrorMessage(thrown);
  }
}

const MIN_DISTINCT = 6;
const PLACEHOLDERS =
  /change|replace|me|this|your|my|the|a|an|example|placeholder|default|secret|token|password|passwd|key|api|bearer|admin|test|dev|demo|foo|bar|abc|xyz|qwerty|quartermaster/g;

function findTokenWeakness(token: string): string | undefined {
  const letters = token.toLowerCase().replaceAll(/[^a-z]/g, "");
  if (letters !== "" && letters.replaceAll(PLACEHOLDERS, "") === "") return "the token is a well-known placeholder";
  if (token.length < MIN_TOKEN_LENGTH) return `the token has fewer than ${MIN_TOKEN_LENGTH} characters`;
  if (new Set(token).size < MIN_DISTINCT) return `the token has fewer than ${MIN_DISTINCT} different characters`;
  return undefined;
}
