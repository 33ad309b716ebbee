import { type BigIntStats, statSync } from "node:fs";
import { type Environment, variablesIn } from "./config/references.ts";
import type { Config } from "./config/schema.ts";
import { messageOf } from "./core/errors.ts";
import { isRecord } from "./core/json.ts";
import type { KnownSecret } from "./core/known-secret.ts";
import { readSecrets } from "./secrets-file.ts";

type Stored = Readonly<Record<string, string>>;
type NamedSecret = Exclude<KnownSecret, string>;

/**
 * Everything that may not be written down, as it is when it is asked for: secrets may be stored, and logins renewed, at
 * any time and by any process. A file that cannot be read is told of, and what it held before stays in force.
 */
export function unwritable(
  env: Environment,
  path: string,
  onProblem: (problem: string) => void,
): (config: Config) => readonly NamedSecret[] {
  let seen: string | undefined;
  let stored: Stored = {};
  let made: { readonly config: Config; readonly stored: Stored; readonly secrets: readonly NamedSecret[] } | undefined;

  function storedNow(): Stored {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
    const now = stats === undefined ? "" : identityOf(stats);
    if (now === seen) return stored;
    seen = now;
    try {
      stored = readSecrets(path);
    } catch (thrown) {
      onProblem(messageOf(thrown));
    }
    return stored;
  }

  return (config) => {
    const latest = storedNow();
    if (made?.config !== config || made.stored !== latest)
      made = { config, stored: latest, secrets: [...variablesOf(config, env), ...secretsIn(latest)] };
    return made.secrets;
  };
}

/** A file that is replaced is another one, however quickly that happens. */
function identityOf({ ino, size, mtimeNs }: BigIntStats): string {
  return `${ino}:${size}:${mtimeNs}`;
}

/** What is called a secret, and whatever servers, clients and people prove themselves by. */
function variablesOf(
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
  const variables = new Set(texts.flatMap(variablesIn));
  // What is not set cannot leak. What is stored is all of it hidden, referred to or not.
  return [...variables].flatMap((name) => (env[name] ? [{ name, value: env[name] }] : []));
}

function secretsIn(stored: Stored): readonly NamedSecret[] {
  return Object.entries(stored).flatMap(([name, value]) => [
    ...(value === "" ? [] : [{ name, value }]),
    // What is kept of a login is a record: what turns up elsewhere is a part of it.
    ...(name.startsWith("oauth.") ? proofsIn(name, parsed(value)) : []),
  ]);
}

const PROOFS = new Set(["access_token", "refresh_token", "id_token", "client_secret", "registration_access_token"]);

function proofsIn(name: string, value: unknown): readonly NamedSecret[] {
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, part]) =>
    typeof part === "string"
      ? PROOFS.has(key) && part !== ""
        ? [{ name: `${name} ${key}`, value: part }]
        : []
      : proofsIn(name, part),
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
