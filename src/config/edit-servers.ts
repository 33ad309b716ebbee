import { mkdir, realpath } from "node:fs/promises";
import { dirname } from "node:path";
import { type Document, isMap, isScalar, type Node, type Pair, parseDocument, stringify, type YAMLMap } from "yaml";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { canonicalJson, type JsonObject } from "../core/json.ts";
import { withFileLock } from "../files/lock-file.ts";
import { backUpFile, replaceTextFile } from "../files/safe-files.ts";
import { readConfig } from "./config-file.ts";
import { type LoadedConfig, parseConfig } from "./parse.ts";

/** The text of a configuration with one more server. All the rest stays byte for byte, where it is written in blocks. */
function insertServer(text: string, name: string, entry: JsonObject): string {
  const document = parseYamlText(text);
  const changed = document.clone() as Document;
  if (!isMap(changed.contents)) changed.contents = changed.createNode({}) as never;
  changed.setIn(["servers", name], changed.createNode(entry));
  return verifyEdit(insertServers(text, document, { [name]: entry }), changed);
}

/** The text without one server, or undefined where it has none of that name. */
function deleteServer(text: string, name: string): string | undefined {
  const document = parseYamlText(text);
  if (!document.hasIn(["servers", name])) return undefined;
  const changed = document.clone() as Document;
  const servers = changed.get("servers");
  if (isMap(servers) && servers.items.length === 1) changed.delete("servers");
  else changed.deleteIn(["servers", name]);
  const after = verifyEdit(cutServer(text, document, name), changed);
  // A file with nothing in it is how one looks that is about to be written, so it is not taken for a configuration.
  return parseYamlText(after).contents === null ? `${after}{}\n` : after;
}

function hasServer(text: string, name: string): boolean {
  return parseYamlText(text).hasIn(["servers", name]);
}

function parseYamlText(text: string): Document.Parsed {
  return parseDocument(text, { logLevel: "silent" });
}

/** The edited text if it means what it should; else the whole document written anew, which keeps its comments. */
function verifyEdit(text: string | undefined, wanted: Document): string {
  if (text !== undefined) {
    const again = parseYamlText(text);
    if (again.errors.length === 0 && canonicalJson(again.toJS() ?? {}) === canonicalJson(wanted.toJS() ?? {}))
      return text;
  }
  return wanted.toString({ lineWidth: 0, flowCollectionPadding: false });
}

function insertServers(text: string, document: Document.Parsed, entries: JsonObject): string | undefined {
  const ended = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  const block = document.get("servers");
  if (block === undefined) return `${ended}servers:\n${indentYaml(entries, 2)}`;
  const last = blockItems(block).at(-1);
  if (last === undefined) return undefined;
  const at = findEnd(ended, last);
  return ended.slice(0, at) + indentYaml(entries, getColumn(text, last)) + ended.slice(at);
}

function cutServer(text: string, document: Document.Parsed, name: string): string | undefined {
  const items = blockItems(document.get("servers"));
  const item = items.find(({ key }) => isScalar(key) && key.value === name);
  const whole = blockItems(document.contents).find(({ key }) => isScalar(key) && key.value === "servers");
  const gone = items.length === 1 ? whole : item;
  if (gone === undefined) return undefined;
  const from = text.lastIndexOf("\n", getStart(gone) - 1) + 1;
  return text.slice(0, from) + text.slice(findEnd(text, gone));
}

function blockItems(node: unknown): readonly Pair[] {
  return isMap(node) && !(node as YAMLMap).flow ? node.items : [];
}

function indentYaml(entries: JsonObject, by: number): string {
  return stringify(entries, { lineWidth: 0 }).replaceAll(/^(?=.)/gm, " ".repeat(by));
}

function getStart({ key }: Pair): number {
  return (key as Node).range?.[0] ?? 0;
}

function getColumn(text: string, pair: Pair): number {
  return getStart(pair) - (text.lastIndexOf("\n", getStart(pair) - 1) + 1);
}

/** Behind the last line that a pair is on. */
function findEnd(text: string, { key, value }: Pair): number {
  const end = (value as Node | null)?.range?.[1] ?? (key as Node).range?.[1] ?? text.length;
  if (end > 0 && text[end - 1] === "\n") return end;
  const next = text.indexOf("\n", end);
  return next < 0 ? text.length : next + 1;
}

interface ConfigEditOptions {
  readonly now: () => Date;
  readonly newId: () => string;
  /** Awaited when the change is known to be sound, before it is written. A throw keeps it from being written. */
  readonly beforeWriting?: (() => Promise<void>) | undefined;
}

interface ConfigEdit {
  readonly path: string;
  /** A copy of the file as it was. Absent: there was none. */
  readonly backup?: string;
}

interface ServerRemoval extends ConfigEdit {
  readonly before: LoadedConfig;
  readonly after: LoadedConfig;
}

/**
 * Writes servers into a configuration file, which is made when it is not there. Comments and order of the rest stay.
 * Throws `conflict` when one of the names is taken, `invalid_config` when the file would not be sound; then nothing is
 * written.
 */
export async function addConfiguredServers(
  path: string,
  servers: Readonly<Record<string, JsonObject>>,
  options: ConfigEditOptions,
): Promise<ConfigEdit> {
  const {
    before: _before,
    after: _after,
    ...edited
  } = await editFile(path, options, (text) =>
    Object.entries(servers).reduce((before, [name, server]) => {
      if (!hasServer(before, name)) return insertServer(before, name, server);
      throw new QmError("conflict", `there is a server ${name} in ${path} already`, {
        hint: `Choose another name, or \`qm servers remove ${name}\` first.`,
      });
    }, text),
  );
  return edited;
}

/** Takes a server out of a configuration file. Throws `not_found`; then nothing is written. */
export async function removeConfiguredServer(
  path: string,
  name: string,
  options: ConfigEditOptions,
): Promise<ServerRemoval> {
  const { before, ...edited } = await editFile(path, options, (text) => {
    const after = deleteServer(text, name);
    if (after !== undefined) return after;
    throw new QmError("not_found", `there is no server ${name} in ${path}`, {
      hint: "`qm servers list` shows the servers there are.",
    });
  });
  return { ...edited, before: before ?? edited.after };
}

type EditResult = ConfigEdit & { readonly before?: LoadedConfig; readonly after: LoadedConfig };

/** Of two that change a file at once, each finds what the other has written. */
async function editFile(
  path: string,
  options: ConfigEditOptions,
  change: (text: string) => string,
): Promise<EditResult> {
  try {
    await mkdir(dirname(path), { recursive: true });
    // By whichever link a file is reached, it has one lock.
    const file = await realpath(path).catch(() => path);
    return await withFileLock(`${file}.lock`, options, () => editLocked(path, options, change));
  } catch (thrown) {
    if (thrown instanceof QmError) throw thrown;
    throw new QmError("action_failed", `${path} cannot be written: ${getErrorMessage(thrown)}`, { cause: thrown });
  }
}

async function editLocked(
  path: string,
  { now, newId, beforeWriting }: ConfigEditOptions,
  change: (text: string) => string,
): Promise<EditResult> {
  const text = await readText(path);
  // A file that is not sound is mended by its owner, not by us.
  const before = text === undefined ? undefined : parseConfig(Buffer.from(text), path);
  const changed = change(text ?? "");
  const after = parseConfig(Buffer.from(changed), path);
  await beforeWriting?.();
  const backup = before === undefined ? undefined : await backUpFile(path, now());
  await replaceTextFile(path, changed, { unique: newId() });
  return { path, after, ...(before === undefined ? {} : { before }), ...(backup === undefined ? {} : { backup }) };
}

async function readText(path: string): Promise<string | undefined> {
  try {
    return Buffer.from(await readConfig(path)).toString("utf8");
  } catch (thrown) {
    const cause = thrown instanceof QmError ? thrown.cause : undefined;
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return undefined;
    throw thrown;
  }
}
