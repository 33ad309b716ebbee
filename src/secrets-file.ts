import { readFileSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf, QmError } from "./core/errors.ts";
import { isRecord } from "./core/json.ts";
import type { Runtime } from "./core/runtime.ts";
import { withLock } from "./files/lock-file.ts";
import { makePrivateFolder } from "./files/private-folder.ts";
import { replaceFile } from "./files/replace-file.ts";
import type { SecretStore } from "./mcp/secret-store.ts";

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
    try {
      makePrivateFolder(dirname(path));
      // Two processes that store a secret each must not lose one.
      return await withLock(`${path}.lock`, runtime, async () => {
        const secrets = new Map(Object.entries(readSecrets(path)));
        if (!edit(secrets)) return false;
        const text = `${JSON.stringify(Object.fromEntries(secrets), null, 2)}\n`;
        await replaceFile(path, text, { mode: 0o600, unique: runtime.newId() });
        // A file that was there before keeps what it was allowed.
        await chmod(path, 0o600);
        return true;
      });
    } catch (thrown) {
      throw thrown instanceof QmError ? thrown : unusable(path, thrown);
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

function unusable(path: string, why: unknown): QmError {
  return new QmError("store_failed", `the secrets in ${path} cannot be used: ${messageOf(why)}`, {
    hint: "The file belongs to you alone and holds a JSON object; `qm secrets set` makes it anew when it is gone.",
  });
}
