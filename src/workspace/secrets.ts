import { readFileSync, statSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { dirname } from "node:path";
import type { LoadedConfig } from "../config/parse.ts";
import { type Environment, listVariables, resolveReference, SECRET_PREFIX } from "../config/references.ts";
import type { Config } from "../config/schema.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import type { KnownSecret } from "../core/known-secret.ts";
import type { Runtime } from "../core/runtime.ts";
import { withFileLock } from "../files/lock-file.ts";
import { createPrivateFolder, replaceTextFile } from "../files/safe-files.ts";
import type { SecretStore } from "../mcp/secret-store.ts";
import { getSecretsPath } from "./state-paths.ts";

type StoredSecrets = Readonly<Record<string, string>>;

const NO_SECRETS: StoredSecrets = {};
/** The files as they were last read. */
const files = new Map<string, { readonly version: string; readonly secrets: StoredSecrets }>();
/** Grows whenever this process may have learned of a stored secret. */
let changes = 0;

/** The secrets in the file, by name. Empty if there is no file. Reads it again after a change. Throws `store_failed`. */
function readSecrets(path: string): StoredSecrets {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (stats === undefined) return NO_SECRETS;
  const version = `${stats.ino}:${stats.size}:${stats.mtimeNs}`;
  const known = files.get(path);
  if (known?.version === version) return known.secrets;
  const secrets = parseSecrets(path);
  files.set(path, { version, secrets });
  changes++;
  return secrets;
}

function parseSecrets(path: string): StoredSecrets {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw secretsFileError(path, thrown);
  }
  try {
    const parsed: unknown = JSON.parse(text);
    if (!isRecord(parsed)) throw new TypeError("not an object");
    return Object.fromEntries(
      Object.entries(parsed).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
    );
  } catch {
    // The parser's message could quote a secret.
    throw secretsFileError(path, "it is not a JSON object");
  }
}

/** Secrets in a file that only its owner can read. Every access looks at the file, to see the changes of other processes. */
export function openSecretsFile(path: string, runtime: Pick<Runtime, "newId" | "now">): SecretStore {
  async function change(edit: (secrets: Map<string, string>) => boolean): Promise<boolean> {
    try {
      createPrivateFolder(dirname(path));
      // Without the lock, two processes that store a secret at the same time could lose one.
      return await withFileLock(`${path}.lock`, runtime, async () => {
        const secrets = new Map(Object.entries(readSecrets(path)));
        if (!edit(secrets)) return false;
        const text = `${JSON.stringify(Object.fromEntries(secrets), null, 2)}\n`;
        await replaceTextFile(path, text, { mode: 0o600, unique: runtime.newId() });
        // Replacing a file keeps its old permissions.
        await chmod(path, 0o600);
        changes++;
        return true;
      });
    } catch (thrown) {
      throw thrown instanceof QmError ? thrown : secretsFileError(path, thrown);
    }
  }

  return {
    async get(name) {
      const secrets = readSecrets(path);
      return Object.hasOwn(secrets, name) ? secrets[name] : undefined;
    },
    async set(name, value) {
      await change((secrets) => {
        if (secrets.get(name) === value) return false;
        secrets.set(name, value);
        return true;
      });
    },
    delete: (name) => change((secrets) => secrets.delete(name)),
    names: async () => Object.keys(readSecrets(path)).sort(),
  };
}

function secretsFileError(path: string, why: unknown): QmError {
  return new QmError("store_failed", `the secrets in ${path} cannot be used: ${getErrorMessage(why)}`, {
    hint: "The file must be readable by you and hold a JSON object. Delete it to start again.",
  });
}

/** Fills references. Reads the file of secrets only for texts that refer to one, so that a broken file harms no other. */
export const createReferenceFiller =
  (env: Environment, storePath: string): ((text: string, key: string) => string) =>
  (text, key) =>
    resolveReference(text, text.includes(SECRET_PREFIX) ? mergeStoredSecrets(env, storePath) : env, key);

export function mergeStoredSecrets(env: Environment, storePath: string): Environment {
  const secrets = readSecrets(getSecretsPath(storePath));
  const stored = Object.entries(secrets).map(([name, value]) => [`${SECRET_PREFIX}${name}`, value]);
  // An environment variable may have such a name too.
  const variables = Object.entries(env).filter(([name]) => !name.startsWith(SECRET_PREFIX));
  return Object.fromEntries([...variables, ...stored]);
}

export function listReferencedSecrets({ references }: LoadedConfig): readonly string[] {
  const names = references.map(({ variable }) => variable).filter((variable) => variable.startsWith(SECRET_PREFIX));
  return names.map((variable) => variable.slice(SECRET_PREFIX.length));
}

type NamedSecret = Exclude<KnownSecret, string>;

/** The secrets to redact, with every one that this process has read. If the file is unreadable, its former ones stay redacted. */
export function createSecretLister(
  env: Environment,
  path: string,
  onProblem: (problem: string) => void,
): (config: Config) => readonly NamedSecret[] {
  let stored: StoredSecrets = {};
  let changesSeen: number | undefined;
  let problem: string | undefined;
  let listed: { readonly config: Config; readonly stored: StoredSecrets } | undefined;
  let secrets: readonly NamedSecret[] = [];

  function refreshStored(): void {
    // Looking at the file for each event costs as much as writing it. Once in a turn shows what other processes store.
    if (changesSeen === changes) return;
    setImmediate(() => {
      changesSeen = undefined;
    }).unref();
    try {
      stored = readSecrets(path);
      problem = undefined;
    } catch (thrown) {
      const message = getErrorMessage(thrown);
      if (message !== problem) onProblem(message);
      problem = message;
    }
    changesSeen = changes;
  }

  return (config) => {
    refreshStored();
    if (listed?.config === config && listed.stored === stored) return secrets;
    listed = { config, stored };
    secrets = [...listVariableSecrets(config, env), ...listStoredSecrets(stored)];
    return secrets;
  };
}

/** The variables in `secrets`, in credentials, and in what programs and servers get. */
function listVariableSecrets(config: Config, env: Environment): readonly NamedSecret[] {
  const { secrets, search, providers, models, servers, apis, peers, gateway, a2a, approvals } = config;
  const { web, exec } = providers;
  const clients = [gateway.profiles, a2a.clients, approvals.approvers].flatMap((each) => Object.values(each));
  const texts = [
    ...secrets,
    search.embedder.apiKey ?? "",
    ...[web.search?.url ?? "", web.search?.token ?? "", ...Object.values(exec.env)],
    ...Object.values(models).map(({ apiKey = "" }) => apiKey),
    ...Object.values(servers).flatMap(({ args, env, headers, url = "", oauth }) => {
      return [...args, ...Object.values(env), ...Object.values(headers), url, oauth?.clientSecret ?? ""];
    }),
    ...Object.values(apis).flatMap(({ auth }) => Object.values(auth)),
    ...Object.values(peers).flatMap(({ url, token = "" }) => [url, token]),
    ...clients.map(({ token = "" }) => token),
  ];
  // Only the variables, not the text around them: a variable's value may appear elsewhere.
  const variables = new Set(texts.flatMap(listVariables));
  return [...variables].flatMap((name) => (env[name] ? [{ name, value: env[name] }] : []));
}

const listStoredSecrets = (stored: StoredSecrets): readonly NamedSecret[] =>
  Object.entries(stored).flatMap(([name, value]) => [
    ...(value === "" ? [] : [{ name, value }]),
    // A stored login is a record; its tokens may appear elsewhere one by one.
    ...(name.startsWith("oauth.") ? listCredentials(name, parseJson(value)) : []),
  ]);

const CREDENTIAL_KEY = /^(?:access_token|refresh_token|id_token|client_secret|registration_access_token)$/;

function listCredentials(name: string, value: unknown): readonly NamedSecret[] {
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, part]) => {
    if (typeof part !== "string") return listCredentials(name, part);
    return CREDENTIAL_KEY.test(key) && part !== "" ? [{ name: `${name} ${key}`, value: part }] : [];
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
