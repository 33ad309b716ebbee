import { readFileSync } from "node:fs";
import { chmod, mkdir, open, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf, QmError } from "./core/errors.ts";
import { isRecord } from "./core/json.ts";
import type { Runtime } from "./core/runtime.ts";
import { replaceFile } from "./files/replace-file.ts";
import type { SecretStore } from "./mcp/secret-store.ts";

const LOCK_TRIES = 200;
const LOCK_WAIT_MS = 25;
/** Nobody holds the file for longer than it takes to write it. */
const LOCK_STALE_MS = 10_000;

/** Every secret in the file, by name. None where there is no file. */
export function readSecrets(path: string): Readonly<Record<string, string>> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw unusable(path, thrown);
  }
  try {
    const parsed: unknown = JSON.parse(text);
    if (!isRecord(parsed)) throw new TypeError("it is no mapping");
    return Object.fromEntries(
      Object.entries(parsed).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
    );
  } catch {
    // The parser's own words could quote what is in there.
    throw unusable(path, "it is not what was written there");
  }
}

/** Secrets in one file that only its owner can read. It is read anew each time, so that processes see each other's. */
export function secretsFile(path: string, runtime: Pick<Runtime, "newId" | "now">): SecretStore {
  async function change(edit: (secrets: Map<string, string>) => boolean): Promise<boolean> {
    await mkdir(dirname(path), { recursive: true });
    const unlock = await locked(`${path}.lock`, runtime);
    try {
      const secrets = new Map(Object.entries(readSecrets(path)));
      if (!edit(secrets)) return false;
      const text = `${JSON.stringify(Object.fromEntries(secrets), null, 2)}\n`;
      await replaceFile(path, text, { mode: 0o600, unique: runtime.newId() });
      await chmod(path, 0o600);
      return true;
    } catch (thrown) {
      throw thrown instanceof QmError ? thrown : unusable(path, thrown);
    } finally {
      await unlock();
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

/** Two processes that store a secret each must not lose one. */
async function locked(path: string, { now }: Pick<Runtime, "now">): Promise<() => Promise<void>> {
  for (let tries = 0; tries < LOCK_TRIES; tries++) {
    try {
      const file = await open(path, "wx", 0o600);
      await file.close();
      return () => rm(path, { force: true });
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw unusable(path, thrown);
      await stale(path, now);
      await new Promise((resolve) => setTimeout(resolve, LOCK_WAIT_MS));
    }
  }
  throw unusable(path, "another process holds it");
}

async function stale(path: string, now: () => Date): Promise<void> {
  try {
    const file = await open(path, "r");
    const { mtimeMs } = await file.stat().finally(() => file.close());
    if (now().getTime() - mtimeMs > LOCK_STALE_MS) await rm(path, { force: true });
  } catch {
    // It is gone: the next try will have it.
  }
}

function unusable(path: string, why: unknown): QmError {
  return new QmError("store_failed", `the secrets in ${path} cannot be used: ${messageOf(why)}`, {
    hint: "The file belongs to you alone and holds a JSON object; `qm secrets set` makes it anew when it is gone.",
  });
}
