import { mkdir, realpath } from "node:fs/promises";
import { dirname } from "node:path";
import { type Document, isMap, isScalar, type Node, type Pair, parseDocument, stringify, type YAMLMap } from "yaml";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { canonicalJson, type JsonObject, omitUndefined } from "../core/json.ts";
import { type FileLockOptions, withFileLock } from "../files/lock-file.ts";
import { backUpFile, replaceTextFile } from "../files/safe-files.ts";
import { readConfig } from "./config-file.ts";
import { type LoadedConfig, parseConfig } from "./parse.ts";

interface ConfigEditOptions extends FileLockOptions {
  /** Awaited once the change is known to be valid. If it throws, nothing is written. */
  readonly beforeWriting?: (() => Promise<void>) | undefined;
}

interface ConfigEdit {
  readonly path: string;
  /** A copy of the former file, if there was one. */
  readonly backup?: string;
}

/** Keeps comments and order. Throws `conflict` for a taken name, `invalid_config`, and then writes nothing. */
export async function addConfiguredServers(
  path: string,
  servers: Readonly<Record<string, JsonObject>>,
  options: ConfigEditOptions,
): Promise<ConfigEdit> {
  const {
    before: _before,
    after: _after,
    ...edit
  } = await editFile(path, options, (text) => {
    for (const [name, server] of Object.entries(servers)) text = insertEntry(path, text, "servers", name, server);
    return text;
  });
  return edit;
}

/** Adds an API, or sets keys of a configured one: its other keys stay. Keeps comments and order. */
export async function setConfiguredApi(
  path: string,
  name: string,
  api: JsonObject,
  options: ConfigEditOptions,
): Promise<ConfigEdit> {
  const { backup } = await editFile(path, options, (text) => {
    const document = parseYamlText(text);
    if (!document.hasIn(["apis", name])) {
      const given = Object.entries(api).filter(([, value]) => typeof value !== "object" || !isEmpty(value));
      return insertEntry(path, text, "apis", name, Object.fromEntries(given));
    }
    return setKeys(text, document, ["apis", name], api);
  });
  return omitUndefined({ path, backup });
}

const isEmpty = (value: object | null): boolean => Object.keys(value ?? {}).length === 0;

/** Replaces the texts of changed scalars. For other changes the whole document is written again, with its comments. */
function setKeys(text: string, document: Document.Parsed, at: readonly string[], values: JsonObject): string {
  const changed = document.clone() as Document;
  const edits: { readonly from: number; readonly to: number; readonly text: string }[] = [];
  const before = (document.getIn(at) as YAMLMap | undefined)?.toJSON() ?? {};
  for (const [key, value] of Object.entries(values)) {
    if (canonicalJson(before[key] ?? null) === canonicalJson(value ?? null)) continue;
    if (before[key] === undefined && typeof value === "object" && isEmpty(value)) continue;
    changed.setIn([...at, key], changed.createNode(value));
    const node = document.getIn([...at, key], true);
    if (isScalar(node) && node.range && typeof value === "string")
      edits.push({ from: node.range[0], to: node.range[1], text: JSON.stringify(value) });
  }
  const edited = edits
    .sort((a, b) => b.from - a.from)
    .reduce((all, { from, to, text: next }) => all.slice(0, from) + next + all.slice(to), text);
  return verifyEdit(edited, changed);
}

/** Throws `not_found`, and then writes nothing. */
export async function removeConfiguredApi(path: string, name: string, options: ConfigEditOptions): Promise<ConfigEdit> {
  const { backup } = await editFile(path, options, (text) => deleteEntry(path, text, "apis", name));
  return omitUndefined({ path, backup });
}

/** Removes a server from a configuration file. Throws `not_found`, and then writes nothing. */
export async function removeConfiguredServer(
  path: string,
  name: string,
  options: ConfigEditOptions,
): Promise<ConfigEdit & { readonly before: LoadedConfig; readonly after: LoadedConfig }> {
  const { before, ...edit } = await editFile(path, options, (text) => deleteEntry(path, text, "servers", name));
  return { ...edit, before: before ?? edit.after };
}

/** Edits a file under a lock, so that two processes do not overwrite each other's changes. */
async function editFile(path: string, options: ConfigEditOptions, change: (text: string) => string) {
  try {
    await mkdir(dirname(path), { recursive: true });
    // All links to a file share one lock.
    const file = await realpath(path).catch(() => path);
    return await withFileLock(`${file}.lock`, options, async () => {
      const text = await readText(path);
      // Throws for an invalid file: its owner must fix it first.
      const before = text === undefined ? undefined : parseConfig(Buffer.from(text), path);
      const changed = change(text ?? "");
      const after = parseConfig(Buffer.from(changed), path);
      await options.beforeWriting?.();
      const backup = before && (await backUpFile(path, options.now()));
      await replaceTextFile(path, changed, { unique: options.newId() });
      return omitUndefined({ path, after, before, backup });
    });
  } catch (thrown) {
    if (thrown instanceof QmError) throw thrown;
    throw new QmError("action_failed", `${path} cannot be written: ${getErrorMessage(thrown)}`, { cause: thrown });
  }
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

/** The sections of the file that commands edit, with the word for an entry. */
const NOUNS = { servers: "server", apis: "API" } as const;
type Section = keyof typeof NOUNS;

/** The text with one more entry. In block style, the rest stays byte for byte. */
function insertEntry(path: string, text: string, section: Section, name: string, entry: JsonObject): string {
  const document = parseYamlText(text);
  if (document.hasIn([section, name])) {
    const hint = `Choose another name, or run \`qm ${section} remove ${name}\` first.`;
    throw new QmError("conflict", `${path} already has the ${NOUNS[section]} ${name}`, { hint });
  }
  const changed = document.clone() as Document;
  if (!isMap(changed.contents)) changed.contents = changed.createNode({}) as never;
  changed.setIn([section, name], changed.createNode(entry));
  return verifyEdit(insertText(text, document, section, { [name]: entry }), changed);
}

function deleteEntry(path: string, text: string, section: Section, name: string): string {
  const document = parseYamlText(text);
  if (!document.hasIn([section, name])) {
    const hint = `\`qm ${section} list\` shows the configured ones.`;
    throw new QmError("not_found", `${path} has no ${NOUNS[section]} ${name}`, { hint });
  }
  const changed = document.clone() as Document;
  const entries = changed.get(section);
  if (isMap(entries) && entries.items.length === 1) changed.delete(section);
  else changed.deleteIn([section, name]);
  const after = verifyEdit(cutText(text, document, section, name), changed);
  // A watcher rejects an empty file, because a file looks like that while it is written.
  return parseYamlText(after).contents === null ? `${after}{}\n` : after;
}

const parseYamlText = (text: string): Document.Parsed => parseDocument(text, { logLevel: "silent" });

/** The edited text if it has the wanted values. Otherwise the whole document is written again, with its comments. */
function verifyEdit(text: string | undefined, wanted: Document): string {
  if (text !== undefined) {
    const again = parseYamlText(text);
    if (again.errors.length === 0 && canonicalJson(again.toJS() ?? {}) === canonicalJson(wanted.toJS() ?? {}))
      return text;
  }
  return wanted.toString({ lineWidth: 0, flowCollectionPadding: false });
}

function insertText(
  text: string,
  document: Document.Parsed,
  section: Section,
  entries: JsonObject,
): string | undefined {
  const ended = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  const block = document.get(section);
  if (block === undefined) return `${ended}${section}:\n${indentYaml(entries, 2)}`;
  const last = listBlockItems(block).at(-1);
  if (last === undefined) return undefined;
  const at = findEnd(ended, last);
  const column = getStart(last) - findLineStart(text, last);
  return ended.slice(0, at) + indentYaml(entries, column) + ended.slice(at);
}

function cutText(text: string, document: Document.Parsed, section: Section, name: string): string | undefined {
  const items = listBlockItems(document.get(section));
  const [from, key] = items.length === 1 ? [listBlockItems(document.contents), section] : [items, name];
  const pair = from.find((each) => isScalar(each.key) && each.key.value === key);
  return pair && text.slice(0, findLineStart(text, pair)) + text.slice(findEnd(text, pair));
}

const listBlockItems = (node: unknown): readonly Pair[] => (isMap(node) && !(node as YAMLMap).flow ? node.items : []);
const indentYaml = (entries: JsonObject, by: number): string =>
  stringify(entries, { lineWidth: 0 }).replaceAll(/^(?=.)/gm, " ".repeat(by));
const getStart = ({ key }: Pair): number => (key as Node).range?.[0] ?? 0;
const findLineStart = (text: string, pair: Pair): number => text.lastIndexOf("\n", getStart(pair) - 1) + 1;

function findEnd(text: string, { key, value }: Pair): number {
  const end = (value as Node | null)?.range?.[1] ?? (key as Node).range?.[1] ?? text.length;
  if (end > 0 && text[end - 1] === "\n") return end;
  const next = text.indexOf("\n", end);
  return next < 0 ? text.length : next + 1;
}
