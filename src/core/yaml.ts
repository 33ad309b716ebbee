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
import { decodeText } from "./decode-text.ts";
import { clip } from "./json.ts";
import { quoteName } from "./names.ts";

/** A place in a text, counted from 1. */
export type TextPosition = { readonly line: number; readonly column: number };

export interface YamlProblem extends TextPosition {
  /** `policy.rules[0].effect`; empty for the document as a whole. */
  readonly key: string;
  readonly message: string;
}

export type KeyPath = readonly (string | number)[];

export const formatKeyPath = (path: KeyPath): string =>
  path
    .map((segment, index) => {
      if (typeof segment === "number") return `[${segment}]`;
      const name = /^[\w-]{1,80}$/.test(segment) ? segment : quoteName(segment);
      return index === 0 ? name : `.${name}`;
    })
    .join("");

/** Locating a problem takes time, and a hundred are enough to work with. */
export const PROBLEM_LIMIT = 100;

export interface YamlDocument {
  readonly value: unknown;
  readonly problems: readonly YamlProblem[];
  /** The place of the value at `path`, or of the nearest value around it. */
  locateValue(path: KeyPath): TextPosition;
  locateKey(path: KeyPath): TextPosition;
}

export const YAML_BYTE_LIMIT = 1_000_000;
const DEPTH_LIMIT = 20;

// Lookups by a name from the file would find these on any object.
const FORBIDDEN_KEYS: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"]);

/** Reads YAML that is plain data: one document without anchors, tags and repeated keys. Never throws. */
export function readYaml(bytes: Uint8Array): YamlDocument {
  if (bytes.length > YAML_BYTE_LIMIT) return createUnreadable(`larger than ${YAML_BYTE_LIMIT} bytes`);
  const text = decodeText(bytes);
  return text === undefined ? createUnreadable("not UTF-8 text") : readYamlText(text);
}

function createUnreadable(message: string): YamlDocument {
  const start = { line: 1, column: 1 };
  const problems = [{ key: "", message, ...start }];
  return { value: undefined, problems, locateValue: () => start, locateKey: () => start };
}

/** The same for a text that is known to be short enough. */
export function readYamlText(text: string): YamlDocument {
  const lines = new LineCounter();
  const tokens = [...new Parser(lines.addNewLine).parse(text)];
  // Composing is recursive, and a stack overflow can end the process instead of throwing.
  if (isDeeperThan(DEPTH_LIMIT, tokens)) return createUnreadable(`nested more than ${DEPTH_LIMIT} deep`);
  const [document, second] = composeDocuments(tokens, text.length);
  const toPosition = (offset: number): TextPosition => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const errors = [...document.errors, ...document.warnings].slice(0, PROBLEM_LIMIT);
  const problems: YamlProblem[] = errors.map((error) => {
    return { key: "", message: explainError(error), ...toPosition(error.pos[0]) };
  });
  if (second !== undefined) {
    const message = "there is more than one document; keep one and remove the `---` lines";
    problems.push({ key: "", message, ...toPosition(second.range[0]) });
  }
  if (document.directives?.yaml.version === "1.1") {
    problems.push({ key: "", message: "YAML 1.1 is not supported; remove the %YAML line", line: 1, column: 1 });
  }

  const root = document.contents;
  const report = (node: Node | null | undefined, path: KeyPath, message: string) => {
    problems.push({ key: formatKeyPath(path), message, ...toPosition(getStart(node) ?? 0) });
  };
  const value = problems.length === 0 ? toPlainValue(root, [], report) : undefined;
  const locate = (part: "value" | "key") => (path: KeyPath) => toPosition(findOffset(root, path, part));
  return { value, problems, locateValue: locate("value"), locateKey: locate("key") };
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

function composeDocuments(
  tokens: readonly CST.Token[],
  length: number,
): readonly [Document.Parsed, Document.Parsed | undefined] {
  const composer = new Composer({
    logLevel: "silent",
    prettyErrors: false,
    resolveKnownTags: false,
    schema: "core",
    stringKeys: true,
    // The composer compares every pair of keys; toPlainValue finds repeated keys in one pass.
    uniqueKeys: false,
  });
  const documents = composer.compose(tokens, true, length);
  // Each finding is an error, and a hostile text has thousands: their traces take ten times as long as all the rest.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    const first = documents.next().value as Document.Parsed; // forced, so there always is one
    return [first, documents.next().value as Document.Parsed | undefined];
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

const QUOTED_STAR = '["*"]';
type Report = (node: Node | null | undefined, path: KeyPath, message: string) => void;

function toPlainValue(node: unknown, path: KeyPath, report: Report): unknown {
  if (isAlias(node) || (isNode(node) && "anchor" in node && node.anchor)) {
    const message = `anchors and aliases are not supported; write the value out, or quote it: ${QUOTED_STAR}`;
    return void report(node, path, message);
  }
  if (isScalar(node)) return node.value;
  if (!isMap(node) && !isSeq(node)) return null;
  if (isSeq(node)) return node.items.map((item, index) => toPlainValue(item, [...path, index], report));

  const entries = new Map<string, unknown>();
  for (const pair of node.items) {
    const key = getKey(pair);
    const keyPath = [...path, key];
    const keyNode = pair.key as Node | null;
    if (entries.has(key)) report(keyNode, keyPath, "the key is repeated");
    else if (FORBIDDEN_KEYS.has(key)) report(keyNode, keyPath, "a key may not have this name");
    else entries.set(key, toPlainValue(pair.value, keyPath, report));
  }
  return Object.fromEntries(entries);
}

const getKey = (pair: Pair): string => (isScalar(pair.key) ? String(pair.key.value ?? "") : "");

function findOffset(root: unknown, path: KeyPath, wanted: "key" | "value"): number {
  let node = root;
  let offset = getStart(node) ?? 0;
  for (const [depth, segment] of path.entries()) {
    const pair = isMap(node) ? node.items.find((each) => getKey(each) === String(segment)) : undefined;
    const next = isSeq(node) && typeof segment === "number" ? node.items[segment] : pair?.value;
    const keyOffset = getStart(pair?.key);
    if (wanted === "key" && depth === path.length - 1 && keyOffset !== undefined) return keyOffset;
    const nextOffset = getStart(next) ?? keyOffset;
    if (nextOffset === undefined) return offset;
    offset = nextOffset;
    node = next;
  }
  return offset;
}

const getStart = (node: unknown): number | undefined => (node as Node | null | undefined)?.range?.[0];

/** Own messages where the parser's could quote the file, which may hold secrets. */
function explainError({ code, message }: YAMLError): string {
  const messages: Partial<Record<typeof code, string>> = {
    TAB_AS_INDENT: "a tab is used to indent; use spaces",
    TAG_RESOLVE_FAILED: "tags like !name are not supported; write a plain value",
    BAD_ALIAS: `a * or & at the beginning of a value must be quoted: ${QUOTED_STAR}`,
    NON_STRING_KEY: "a key must be plain text",
    BAD_DIRECTIVE: "a line that starts with % is not supported",
    UNEXPECTED_TOKEN: "not YAML; a character is not allowed here",
  };
  return messages[code] ?? `not YAML: ${clip(message.split("\n", 1)[0] ?? "", 200)}`;
}
