import { type BigIntStats, readFileSync, statSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { dirname } from "node:path";
import { type Environment, listVariables } from "../config/references.ts";
import type { Config } from "../config/schema.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import type { KnownSecret } from "../core/known-secret.ts";
import type { Runtime } from "../core/runtime.ts";
import { withFileLock } from "../files/lock-file.ts";
import { createPrivateFolder, replaceTextFile } from "../files/safe-files.ts";
import type { SecretStore } from "../mcp/secret-store.ts";

/** Every secret in the file, by name. None where there is no file. */
export function readSecrets(path: string): Readonly<Record<string, string>> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw secretsFileError(path, thrown);
  }
  try {
    const parsed: unknown = JSON.parse(text);
    if (!isRecord(parsed)) throw new TypeError("it is no mapping");
    return Object.fromEntries(
      Object.entries(parsed).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
    );
  } catch {
    // The parser's own words could quote what is in there.
    throw secretsFileError(path, "it is not what was written there");
  }
}

/** Secrets in one file that only its owner can read. It is read anew each time, so that processes see each other's. */
export function openSecretsFile(path: string, runtime: Pick<Runtime, "newId" | "now">): SecretStore {
  async function change(edit: (secrets: Map<string, string>) => boolean): Promise<boolean> {
    try {
      createPrivateFolder(dirname(path));
      // Two processes that store a secret each must not lose one.
      return await withFileLock(`${path}.lock`, runtime, async () => {
        const secrets = new Map(Object.entries(readSecrets(path)));
        if (!edit(secrets)) return false;
        const text = `${JSON.stringify(Object.fromEntries(secrets), null, 2)}\n`;
        await replaceTextFile(path, text, { mode: 0o600, unique: runtime.newId() });
        // A file that was there before keeps what it was allowed.
        await chmod(path, 0o600);
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
    hint: "The file belongs to you alone and holds a JSON object; `qm secrets set` makes it anew when it is gone.",
  });
}

type StoredSecrets = Readonly<Record<string, string>>;
type NamedSecret = Exclude<KnownSecret, string>;

/**
 * Everything that may not be written down, as it is when it is asked for: secrets may be stored, and logins renewed, at
 * any time and by any process. A file that cannot be read is told of, and what it held before stays in force.
 */
export function createSecretLister(
  env: Environment,
  path: string,
  onProblem: (problem: string) => void,
): (config: Config) => readonly NamedSecret[] {
  let seen: string | undefined;
  let stored: StoredSecrets = {};
  let made:
    | { readonly config: Config; readonly stored: StoredSecrets; readonly secrets: readonly NamedSecret[] }
    | undefined;

  function readLatest(): StoredSecrets {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
    const now = stats === undefined ? "" : toFileIdentity(stats);
    if (now === seen) return stored;
    seen = now;
    try {
      stored = readSecrets(path);
    } catch (thrown) {
      onProblem(getErrorMessage(thrown));
    }
    return stored;
  }

  return (config) => {
    const latest = readLatest();
    if (made?.config !== config || made.stored !== latest)
      made = { config, stored: latest, secrets: [...listVariableSecrets(config, env), ...listStoredSecrets(latest)] };
    return made.secrets;
  };
}

/** A file that is replaced is another one, however quickly that happens. */
function toFileIdentity({ ino, size, mtimeNs }: BigIntStats): string {
  return `${ino}:${size}:${mtimeNs}`;
}

/** What is called a secret, and whatever servers, clients and people prove themselves by. */
function listVariableSecrets(
  { secrets, search, servers, gateway, approvals }: Config,
  env: Environment,
): readonly NamedSecret[] {
  const texts = [
    ...secrets,
    search.embedder.api_key ?? "",
    ...Object.values(servers).flatMap(({ args, env, headers, url = "", oauth }) => [
      ...args,
      ...Object.values(env),
      ...Object.values(headers),
      url,
      oauth?.client_secret ?? "",
    ]),
    ...Object.values(gateway.profiles).map(({ token = "" }) => token),
    ...Object.values(approvals.approvers).map(({ token = "" }) => token),
  ];
  // Each variable alone, not the text around it: that is what may turn up somewhere else.
  const variables = new Set(texts.flatMap(listVariables));
  // What is not set cannot leak. What is stored is all of it hidden, referred to or not.
  return [...variables].flatMap((name) => (env[name] ? [{ name, value: env[name] }] : []));
}

function listStoredSecrets(stored: StoredSecrets): readonly NamedSecret[] {
  return Object.entries(stored).flatMap(([name, value]) => [
    ...(value === "" ? [] : [{ name, value }]),
    // What is kept of a login is a record: what turns up elsewhere is a part of it.
    ...(name.startsWith("oauth.") ? listCredentials(name, parseJson(value)) : []),
  ]);
}

const CREDENTIAL_KEYS = new Set([
  "access_token",
  "refresh_token",
  "id_token",
  "client_secret",
  "registration_access_token",
]);

function listCredentials(name: string, value: unknown): readonly NamedSecret[] {
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, part]) =>
    typeof part === "string"
      ? CREDENTIAL_KEYS.has(key) && part !== ""
        ? [{ name: `${name} ${key}`, value: part }]
        : []
      : listCredentials(name, part),
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
