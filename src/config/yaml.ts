import {
  Composer,
  type CST,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  Parser,
  type YAMLError,
} from "yaml";
import { clip } from "../core/json.ts";
import { type ConfigProblem, type KeyPath, keyText, type Position, PROBLEM_LIMIT } from "./problems.ts";

/** A YAML text as plain values, and where in the text each of them is. */
export interface YamlReading {
  readonly value: unknown;
  readonly problems: readonly ConfigProblem[];
  /** Where the value at `path` is; when there is none, where the nearest value around it is. */
  valueAt(path: KeyPath): Position;
  /** Where the key that ends `path` is. */
  keyAt(path: KeyPath): Position;
}

export const BYTE_LIMIT = 1_000_000;
const DEPTH_LIMIT = 20;

// Reached through a name from the file, these would be found on any object.
const FORBIDDEN_KEYS: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

/** Reads the part of YAML that is plain data: one document, no anchors, no tags, no key twice. Never throws. */
export function readYaml(bytes: Uint8Array): YamlReading {
  if (bytes.length > BYTE_LIMIT) return unreadable(`larger than ${BYTE_LIMIT} bytes`);
  const text = decoded(bytes);
  return text === undefined ? unreadable("not UTF-8 text") : readText(text);
}

function decoded(bytes: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}

function unreadable(message: string): YamlReading {
  const start = { line: 1, column: 1 };
  return {
    value: undefined,
    problems: [{ key: "", message, ...start }],
    valueAt: () => start,
    keyAt: () => start,
  };
}

function readText(text: string): YamlReading {
  const lines = new LineCounter();
  const tokens = [...new Parser(lines.addNewLine).parse(text)];
  // Composing is recursive, and a stack that is too small can end the process rather than throw.
  if (isDeeperThan(DEPTH_LIMIT, tokens)) return unreadable(`nested more than ${DEPTH_LIMIT} deep`);
  const [document, second] = firstTwo(tokens, text.length);
  const positionAt = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const problems: ConfigProblem[] = [...document.errors, ...document.warnings].slice(0, PROBLEM_LIMIT).map((error) => ({
    key: "",
    message: explained(error),
    ...positionAt(error.pos[0]),
  }));
  if (second !== undefined) {
    const message = "there is more than one document; keep one and leave out the `---` lines";
    problems.push({ key: "", message, ...positionAt(second.range[0]) });
  }
  if (document.directives?.yaml.version === "1.1") {
    problems.push({ key: "", message: "YAML 1.1 is not supported; leave out the %YAML line", line: 1, column: 1 });
  }

  const root = document.contents;
  const report = (node: Node | null | undefined, path: KeyPath, message: string) => {
    problems.push({ key: keyText(path), message, ...positionAt(startOf(node) ?? 0) });
  };
  const value = problems.length === 0 ? plain(root, [], report) : undefined;
  return {
    value,
    problems,
    valueAt: (path) => positionAt(offsetOf(root, path, "value")),
    keyAt: (path) => positionAt(offsetOf(root, path, "key")),
  };
}

function isDeeperThan(limit: number, tokens: readonly CST.Token[]): boolean {
  const waiting = tokens.map((token) => ({ token, depth: 0 }));
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { token, depth } = next;
    if (depth > limit) return true;
    if (token.type === "document" && token.value) waiting.push({ token: token.value, depth });
    if (!("items" in token)) continue;
    for (const { key, value } of token.items) {
      if (key) waiting.push({ token: key, depth: depth + 1 });
      if (value) waiting.push({ token: value, depth: depth + 1 });
    }
  }
  return false;
}

function firstTwo(
  tokens: readonly CST.Token[],
  length: number,
): readonly [Document.Parsed, Document.Parsed | undefined] {
  const composer = new Composer({
    logLevel: "silent",
    prettyErrors: false,
    resolveKnownTags: false,
    schema: "core",
    stringKeys: true,
    // The composer compares every key with every other; the walk below finds repeated keys in one pass.
    uniqueKeys: false,
  });
  const documents = composer.compose(tokens, true, length);
  const first = documents.next().value as Document.Parsed; // told to, it makes one even of nothing
  return [first, documents.next().value as Document.Parsed | undefined];
}

const QUOTED_STAR = '["*"]';

type Report = (node: Node | null | undefined, path: KeyPath, message: string) => void;

function plain(node: unknown, path: KeyPath, report: Report): unknown {
  if (isAlias(node) || (isNode(node) && "anchor" in node && node.anchor)) {
    return void report(
      node,
      path,
      `anchors and aliases are not supported; write the value out, or quote it: ${QUOTED_STAR}`,
    );
  }
  if (isScalar(node)) return node.value;
  if (!isMap(node) && !isSeq(node)) return null;
  if (isSeq(node)) return node.items.map((item, index) => plain(item, [...path, index], report));

  const entries = new Map<string, unknown>();
  for (const pair of node.items) {
    const key = keyOf(pair);
    const keyPath = [...path, key];
    const keyNode = pair.key as Node | null;
    if (entries.has(key)) report(keyNode, keyPath, "the key is here twice");
    else if (FORBIDDEN_KEYS.has(key)) report(keyNode, keyPath, "a key may not have this name");
    else entries.set(key, plain(pair.value, keyPath, report));
  }
  return Object.fromEntries(entries);
}

function keyOf(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value ?? "") : "";
}

function offsetOf(root: unknown, path: KeyPath, wanted: "key" | "value"): number {
  let node = root;
  let offset = startOf(node) ?? 0;
  for (const [depth, segment] of path.entries()) {
    const pair = isMap(node) ? node.items.find((each) => keyOf(each) === String(segment)) : undefined;
    const next = isSeq(node) && typeof segment === "number" ? node.items[segment] : pair?.value;
    const keyOffset = startOf(pair?.key);
    if (wanted === "key" && depth === path.length - 1 && keyOffset !== undefined) return keyOffset;
    const nextOffset = startOf(next) ?? keyOffset;
    if (nextOffset === undefined) return offset;
    offset = nextOffset;
    node = next;
  }
  return offset;
}

function startOf(node: unknown): number | undefined {
  return (node as Node | null | undefined)?.range?.[0];
}

/** In our own words where the parser's could quote the file, which may hold what must not be shown. */
function explained({ code, message }: YAMLError): string {
  switch (code) {
    case "TAB_AS_INDENT":
      return "a tab is used to indent; use spaces";
    case "TAG_RESOLVE_FAILED":
      return "tags like !name are not supported; write a plain value";
    case "BAD_ALIAS":
      return `a * or & at the beginning of a value must be quoted: ${QUOTED_STAR}`;
    case "NON_STRING_KEY":
      return "a key must be plain text";
    case "BAD_DIRECTIVE":
      return "a line that starts with % is not supported";
    case "UNEXPECTED_TOKEN":
      return "not YAML; something stands where it cannot";
    default:
      return `not YAML: ${clip(message.split("\n", 1)[0] ?? "", 200)}`;
  }
}
