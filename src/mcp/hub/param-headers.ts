import { isRecord, type JsonObject } from "../../core/json.ts";

/** One argument that is sent as a header too: where it lies, and the header's name after `Mcp-Param-`. */
export interface ParamHeader {
  readonly path: readonly string[];
  readonly name: string;
}

export type ParamHeaderScan =
  | { readonly ok: true; readonly headers: readonly ParamHeader[] }
  | { readonly ok: false; readonly problem: string };

const KEYWORD = "x-mcp-header";
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: readonly unknown[] = ["string", "integer", "boolean"];
/** Deep enough for any real schema, and a bound for the others. */
const DEPTH = 64;

/**
 * The arguments that a tool's schema wants as headers (`x-mcp-header`, protocol 2026-07-28). One annotation that breaks
 * the rules makes the tool unusable over HTTP: they may stand on strings, integers and booleans only, and only where a
 * chain of `properties` leads.
 */
export function findParamHeaders(inputSchema: JsonObject): ParamHeaderScan {
  const headers: ParamHeader[] = [];
  const problem = visit(inputSchema, [], true, 0, headers);
  if (problem !== undefined) return { ok: false, problem };
  const names = headers.map(({ name }) => name.toLowerCase());
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  return twice === undefined
    ? { ok: true, headers }
    : { ok: false, problem: `${KEYWORD} ${JSON.stringify(twice)} is there twice` };
}

/** The headers of one call. What is absent, null or no plain value has none. */
export function buildParamHeaders(headers: readonly ParamHeader[], args: unknown): Record<string, string> {
  const values: Record<string, string> = {};
  for (const { path, name } of headers) {
    const text = toPlainText(path.reduce<unknown>((value, key) => (isRecord(value) ? value[key] : undefined), args));
    if (text !== undefined) values[`Mcp-Param-${name}`] = encodeFieldValue(text);
  }
  return values;
}

function visit(
  node: unknown,
  path: readonly string[],
  reachable: boolean,
  depth: number,
  found: ParamHeader[],
): string | undefined {
  if (typeof node !== "object" || node === null || depth > DEPTH) return undefined;
  if (isRecord(node) && Object.hasOwn(node, KEYWORD)) {
    const problem = findMisuse(node, path, reachable);
    if (problem !== undefined) return problem;
    found.push({ path, name: String(node[KEYWORD]) });
  }
  for (const [key, part] of Object.entries(node)) {
    if (INERT.has(key)) continue;
    // Whatever is below anything but `properties` cannot be reached, so that an annotation there is one too many.
    const chain = reachable && key === "properties";
    const schemas = MAPS.has(key) && isRecord(part) ? Object.entries(part) : [[key, part] as const];
    for (const [name, schema] of schemas) {
      const problem = visit(schema, chain ? [...path, name] : path, chain, depth + 1, found);
      if (problem !== undefined) return problem;
    }
  }
  return undefined;
}

/** Keywords whose value has a schema under each name. */
const MAPS = new Set(["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"]);
/** Data, not schemas: the keyword's name may stand in them. */
const INERT = new Set(["default", "const", "enum", "examples", KEYWORD]);

function findMisuse(node: Record<string, unknown>, path: readonly string[], reachable: boolean): string | undefined {
  const at = path.length === 0 ? "the schema" : JSON.stringify(path.join("."));
  const name = node[KEYWORD];
  if (!reachable || path.length === 0) return `${at}: ${KEYWORD} stands where no chain of properties leads`;
  if (typeof name !== "string" || !TOKEN.test(name)) return `${at}: ${KEYWORD} is no name of a header`;
  if (!TYPES.includes(node.type)) return `${at}: ${KEYWORD} stands on something that is no string, integer or boolean`;
  return undefined;
}

function toPlainText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "boolean" || Number.isSafeInteger(value)) return String(value);
  return undefined;
}

/** What a field value cannot hold as it is, or would lose, goes as base64. */
function encodeFieldValue(text: string): string {
  const asItIs = /^[\t\x20-\x7e]+$/.test(text) && text === text.trim() && !/^=\?base64\?.*\?=$/.test(text);
  return asItIs ? text : `=?base64?${Buffer.from(text, "utf8").toString("base64")}?=`;
}
