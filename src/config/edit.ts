import { copyFile, mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf, QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { replaceFile } from "../files/replace-file.ts";
import { readConfig } from "./load.ts";
import { parseConfig } from "./parse.ts";
import { hasServer, withoutServer, withServer } from "./servers-text.ts";

export interface EditOptions {
  readonly now: () => Date;
  readonly newId: () => string;
}

export interface Edited {
  readonly path: string;
  /** A copy of the file as it was. Absent: there was none. */
  readonly backup?: string;
}

/**
 * Writes servers into a configuration file, which is made when it is not there. Comments and order of the rest stay.
 * Throws `conflict` when one of the names is taken, `invalid_config` when the file would not be sound; then nothing is
 * written.
 */
export async function addServers(
  path: string,
  servers: Readonly<Record<string, JsonObject>>,
  options: EditOptions,
): Promise<Edited> {
  return edit(path, options, (text) =>
    Object.entries(servers).reduce((before, [name, server]) => {
      if (!hasServer(before, name)) return withServer(before, name, server);
      throw new QmError("conflict", `there is a server ${name} in ${path} already`, {
        hint: `Choose another name, or \`qm servers remove ${name}\` first.`,
      });
    }, text),
  );
}

/** Takes a server out of a configuration file. Throws `not_found`; then nothing is written. */
export async function removeServer(path: string, name: string, options: EditOptions): Promise<Edited> {
  return edit(path, options, (text) => {
    const after = withoutServer(text, name);
    if (after !== undefined) return after;
    throw new QmError("not_found", `there is no server ${name} in ${path}`, {
      hint: "`qm servers list` shows the servers there are.",
    });
  });
}

async function edit(path: string, { now, newId }: EditOptions, change: (text: string) => string): Promise<Edited> {
  const before = await textOf(path);
  // A file that is not sound is mended by its owner, not by us.
  if (before !== undefined) parseConfig(Buffer.from(before), path);
  const after = change(before ?? "");
  parseConfig(Buffer.from(after), path);
  try {
    if (before === undefined) {
      await mkdir(dirname(path), { recursive: true });
      await replaceFile(path, after, { unique: newId() });
      return { path };
    }
    const backup = `${path}.bak-${now()
      .toISOString()
      .replaceAll(/[-:]|\.\d+/g, "")}`;
    await copyFile(path, backup);
    await replaceFile(path, after, { unique: newId() });
    return { path, backup };
  } catch (thrown) {
    throw new QmError("action_failed", `${path} cannot be written: ${messageOf(thrown)}`, { cause: thrown });
  }
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    return Buffer.from(await readConfig(path)).toString("utf8");
  } catch (thrown) {
    const cause = thrown instanceof QmError ? thrown.cause : undefined;
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return undefined;
    throw thrown;
  }
}
