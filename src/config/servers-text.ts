import { type Document, isMap, isScalar, type Node, type Pair, parseDocument, stringify, type YAMLMap } from "yaml";
import { canonicalJson, type JsonObject } from "../core/json.ts";

/** The text of a configuration with one more server. All the rest stays byte for byte, where it is written in blocks. */
export function withServer(text: string, name: string, entry: JsonObject): string {
  const document = parsed(text);
  const changed = document.clone() as Document;
  if (!isMap(changed.contents)) changed.contents = changed.createNode({}) as never;
  changed.setIn(["servers", name], changed.createNode(entry));
  return verified(inserted(text, document, { [name]: entry }), changed);
}

/** The text without one server, or undefined where it has none of that name. */
export function withoutServer(text: string, name: string): string | undefined {
  const document = parsed(text);
  if (!document.hasIn(["servers", name])) return undefined;
  const changed = document.clone() as Document;
  const servers = changed.get("servers");
  if (isMap(servers) && servers.items.length === 1) changed.delete("servers");
  else changed.deleteIn(["servers", name]);
  const after = verified(cut(text, document, name), changed);
  // A file with nothing in it is how one looks that is about to be written, so it is not taken for a configuration.
  return parsed(after).contents === null ? `${after}{}\n` : after;
}

export function hasServer(text: string, name: string): boolean {
  return parsed(text).hasIn(["servers", name]);
}

function parsed(text: string): Document.Parsed {
  return parseDocument(text, { logLevel: "silent" });
}

/** The edited text if it means what it should; else the whole document written anew, which keeps its comments. */
function verified(text: string | undefined, wanted: Document): string {
  if (text !== undefined) {
    const again = parsed(text);
    if (again.errors.length === 0 && canonicalJson(again.toJS() ?? {}) === canonicalJson(wanted.toJS() ?? {}))
      return text;
  }
  return wanted.toString({ lineWidth: 0, flowCollectionPadding: false });
}

function inserted(text: string, document: Document.Parsed, entries: JsonObject): string | undefined {
  const ended = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  const block = document.get("servers");
  if (block === undefined) return `${ended}servers:\n${indented(entries, 2)}`;
  const last = blockItems(block).at(-1);
  if (last === undefined) return undefined;
  const at = endOf(ended, last);
  return ended.slice(0, at) + indented(entries, columnOf(text, last)) + ended.slice(at);
}

function cut(text: string, document: Document.Parsed, name: string): string | undefined {
  const items = blockItems(document.get("servers"));
  const item = items.find(({ key }) => isScalar(key) && key.value === name);
  const whole = blockItems(document.contents).find(({ key }) => isScalar(key) && key.value === "servers");
  const gone = items.length === 1 ? whole : item;
  if (gone === undefined) return undefined;
  const from = text.lastIndexOf("\n", startOf(gone) - 1) + 1;
  return text.slice(0, from) + text.slice(endOf(text, gone));
}

function blockItems(node: unknown): readonly Pair[] {
  return isMap(node) && !(node as YAMLMap).flow ? node.items : [];
}

function indented(entries: JsonObject, by: number): string {
  return stringify(entries, { lineWidth: 0 }).replaceAll(/^(?=.)/gm, " ".repeat(by));
}

function startOf({ key }: Pair): number {
  return (key as Node).range?.[0] ?? 0;
}

function columnOf(text: string, pair: Pair): number {
  return startOf(pair) - (text.lastIndexOf("\n", startOf(pair) - 1) + 1);
}

/** Behind the last line that a pair is on. */
function endOf(text: string, { key, value }: Pair): number {
  const end = (value as Node | null)?.range?.[1] ?? (key as Node).range?.[1] ?? text.length;
  if (end > 0 && text[end - 1] === "\n") return end;
  const next = text.indexOf("\n", end);
  return next < 0 ? text.length : next + 1;
}
