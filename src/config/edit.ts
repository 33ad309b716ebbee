import { mkdir, realpath } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf, QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { backUp } from "../files/back-up.ts";
import { withLock } from "../files/lock-file.ts";
import { replaceFile } from "../files/replace-file.ts";
import { readConfig } from "./load.ts";
import { type LoadedConfig, parseConfig } from "./parse.ts";
import { hasServer, withoutServer, withServer } from "./servers-text.ts";

export interface EditOptions {
  readonly now: () => Date;
  readonly newId: () => string;
  /** Awaited when the change is known to be sound, before it is written. A throw keeps it from being written. */
  readonly beforeWriting?: (() => Promise<void>) | undefined;
}

export interface Edited {
  readonly path: string;
  /** A copy of the file as it was. Absent: there was none. */
  readonly backup?: string;
}

export interface Removal extends Edited {
  readonly before: LoadedConfig;
  readonly after: LoadedConfig;
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
  const {
    before: _before,
    after: _after,
    ...edited
  } = await edit(path, options, (text) =>
    Object.entries(servers).reduce((before, [name, server]) => {
      if (!hasServer(before, name)) return withServer(before, name, server);
      throw new QmError("conflict", `there is a server ${name} in ${path} already`, {
        hint: `Choose another name, or \`qm servers remove ${name}\` first.`,
      });
    }, text),
  );
  return edited;
}

/** Takes a server out of a configuration file. Throws `not_found`; then nothing is written. */
export async function removeServer(path: string, name: string, options: EditOptions): Promise<Removal> {
  const { before, ...edited } = await edit(path, options, (text) => {
    const after = withoutServer(text, name);
    if (after !== undefined) return after;
    throw new QmError("not_found", `there is no server ${name} in ${path}`, {
      hint: "`qm servers list` shows the servers there are.",
    });
  });
  return { ...edited, before: before ?? edited.after };
}

type Change = Edited & { readonly before?: LoadedConfig; readonly after: LoadedConfig };

/** Of two that change a file at once, each finds what the other has written. */
async function edit(path: string, options: EditOptions, change: (text: string) => string): Promise<Change> {
  try {
    await mkdir(dirname(path), { recursive: true });
    // By whichever link a file is reached, it has one lock.
    const file = await realpath(path).catch(() => path);
    return await withLock(`${file}.lock`, options, () => editAlone(path, options, change));
  } catch (thrown) {
    if (thrown instanceof QmError) throw thrown;
    throw new QmError("action_failed", `${path} cannot be written: ${messageOf(thrown)}`, { cause: thrown });
  }
}

async function editAlone(
  path: string,
  { now, newId, beforeWriting }: EditOptions,
  change: (text: string) => string,
): Promise<Change> {
  const text = await textOf(path);
  // A file that is not sound is mended by its owner, not by us.
  const before = text === undefined ? undefined : parseConfig(Buffer.from(text), path);
  const changed = change(text ?? "");
  const after = parseConfig(Buffer.from(changed), path);
  await beforeWriting?.();
  const backup = before === undefined ? undefined : await backUp(path, now());
  await replaceFile(path, changed, { unique: newId() });
  return { path, after, ...(before === undefined ? {} : { before }), ...(backup === undefined ? {} : { backup }) };
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
