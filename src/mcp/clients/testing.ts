import { mkdir, mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createSecretNameMatcher } from "../../ledger/secret-names.ts";
import { findSecretSpans } from "../../ledger/secret-text.ts";
import type { ClientEnvironment } from "./client-paths.ts";
import type { ImportPlanOptions } from "./plan-import.ts";

/** For tests with real files in homes of their own. */

const made: string[] = [];

export async function removeHomes(): Promise<void> {
  for (const folder of made.splice(0)) await rm(folder, { recursive: true, force: true });
}

/** A home with a project in it. Files are given by their paths below the home. */
export async function homeWith(
  files: Readonly<Record<string, string | Uint8Array>> = {},
  { platform = "linux", env = {} }: Partial<ClientEnvironment> = {},
): Promise<ClientEnvironment> {
  const home = await realpath(await mkdtemp(join(tmpdir(), "qm-clients-")));
  made.push(home);
  const cwd = join(home, "project");
  await mkdir(cwd);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(home, name)), { recursive: true });
    await writeFile(join(home, name), content);
  }
  return { home, cwd, env, platform };
}

export const own = { bin: "/opt/tools/dist/bin/qm.js", urls: ["http://127.0.0.1:7420/mcp"] };

/** Options of a plan where nothing is configured and nothing is stored. */
export function planning(options: Partial<ImportPlanOptions> = {}): ImportPlanOptions {
  return {
    configured: {},
    own,
    judge: { isSecretName: createSecretNameMatcher(), findSpans: (text) => findSecretSpans(text, []) },
    storedSecret: async () => undefined,
    env: {},
    project: false,
    check: () => undefined,
    ...options,
  };
}
