import { hash } from "node:crypto";
import { readdir, readFile, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Provider } from "../catalog/define-action.ts";
import type { ApiConfig } from "../config/apis-schema.ts";
import type { Action } from "../core/action.ts";
import { QmError } from "../core/errors.ts";
import { createPrivateFolder, replaceTextFile } from "../files/safe-files.ts";
import { getApiFolder } from "./state-paths.ts";

interface ApiPlace {
  readonly storePath: string;
  readonly fill: (text: string, key: string) => string;
  readonly onProblem: (problem: string) => void;
}

/** The digest is in the name, so that a configuration that was not changed still finds its own file. */
export const getCompiledPath = (storePath: string, name: string, digest: string): string =>
  join(getApiFolder(storePath), `${name}.${digest.slice(0, 16)}.json`);

export async function writeCompiledApi(path: string, text: string, unique: string): Promise<void> {
  createPrivateFolder(dirname(path));
  await replaceTextFile(path, text, { mode: 0o600, unique });
}

/** Removes the compiled files of an API, except those with the given digests. */
export async function removeCompiledApis(storePath: string, name: string, keep: readonly string[] = []): Promise<void> {
  const folder = getApiFolder(storePath);
  const kept = new Set(keep.map((digest) => getCompiledPath(storePath, name, digest)));
  for (const file of await readdir(folder).catch(() => []))
    if (file.startsWith(`${name}.`) && !kept.has(join(folder, file))) await rm(join(folder, file), { force: true });
}

/** The configured APIs as one category. Loads the code for it with the first list. */
export function createApiProvider(apis: readonly (readonly [string, ApiConfig])[], place: ApiPlace): Provider {
  const settings = apis.map(([name, { auth, enabled: _, digest, ...api }]) => ({
    ...api,
    name,
    readCredential: cacheForTick((scheme) =>
      Object.hasOwn(auth, scheme) ? place.fill(auth[scheme] ?? "", `apis.${name}.auth.${scheme}`) : undefined,
    ),
    load: () => readCompiled(place.storePath, name, digest),
  }));
  return {
    category: "api",
    capability: "Call the operations of web APIs.",
    async list(): Promise<readonly Action[]> {
      const { apiProvider } = await import("../providers/api/api-provider.ts");
      const { sendWithFetch } = await import("../providers/api/send-request.ts");
      return apiProvider({ apis: settings, send: sendWithFetch, onProblem: place.onProblem }).list();
    },
  };
}

/** Throws `invalid_config` if the file is missing or was changed. */
export async function readCompiled(storePath: string, name: string, digest: string): Promise<string> {
  const path = getCompiledPath(storePath, name, digest);
  const hint = "Import the document again.";
  const text = await readFile(path, "utf8").catch(() => {
    throw new QmError("invalid_config", `${path} cannot be read`, { hint });
  });
  if (hash("sha256", text, "hex") === digest) return text;
  throw new QmError("invalid_config", `${path} is not the file that was imported`, { hint });
}

/** A list of hundreds of operations asks for each credential hundreds of times. */
function cacheForTick(read: (scheme: string) => string | undefined): (scheme: string) => string | undefined {
  const cached = new Map<string, string | undefined>();
  return (scheme) => {
    if (!cached.has(scheme)) {
      cached.set(scheme, readOrUndefined(read, scheme));
      queueMicrotask(() => cached.clear());
    }
    return cached.get(scheme);
  };
}

function readOrUndefined(read: (scheme: string) => string | undefined, scheme: string): string | undefined {
  try {
    return read(scheme);
  } catch {
    return undefined;
  }
}
