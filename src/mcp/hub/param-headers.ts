import { isRecord, type JsonObject } from "../../core/json.ts";

/** An argument that is also sent as a header. `name` is the header's name after `Mcp-Param-`. */
export type ParamHeader = { readonly path: readonly string[]; readonly name: string };
const KEYWORD = "x-mcp-header";
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: readonly unknown[] = ["string", "integer", "boolean"];
const MAX_DEPTH = 64;

/** Finds the arguments marked with `x-mcp-header` (protocol 2026-07-28). One invalid mark makes the tool unusable over HTTP. */
export function findParamHeaders(
  inputSchema: JsonObject,
): { readonly ok: true; readonly headers: readonly ParamHeader[] } | { readonly ok: false; readonly problem: string } {
  const headers: ParamHeader[] = [];
  const problem = visit(inputSchema, [], true, 0, headers);
  if (problem !== undefined) return { ok: false, problem };
  const names = headers.map(({ name }) => name.toLowerCase());
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  return twice === undefined
    ? { ok: true, headers }
    : { ok: false, problem: `${KEYWORD} ${JSON.stringify(twice)} is used twice` };
}

/** The headers of one call. Absent arguments, nulls and objects get none. */
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
  if (typeof node !== "object" || node === null || depth > MAX_DEPTH) return undefined;
  if (isRecord(node) && Object.hasOwn(node, KEYWORD)) {
    const problem = findMisuse(node, path, reachable);
    if (problem !== undefined) return problem;
    found.push({ path, name: String(node[KEYWORD]) });
  }
  for (const [key, part] of Object.entries(node)) {
    if (INERT.has(key)) continue;
    // A schema below any other keyword cannot be reached, so that an annotation there is invalid.
    const chain = reachable && key === "properties";
    const schemas = MAPS.has(key) && isRecord(part) ? Object.entries(part) : [[key, part] as const];
    for (const [name, schema] of schemas) {
      const problem = visit(schema, chain ? [...path, name] : path, chain, depth + 1, found);
      if (problem !== undefined) return problem;
    }
  }
  return undefined;
}

const MAPS = new Set(["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"]);
const INERT = new Set(["default", "const", "enum", "examples", KEYWORD]);

function findMisuse(node: Record<string, unknown>, path: readonly string[], reachable: boolean): string | undefined {
  const at = path.length === 0 ? "the schema" : JSON.stringify(path.join("."));
  const name = node[KEYWORD];
  if (!reachable || path.length === 0) return `${at}: ${KEYWORD} is where no chain of properties leads`;
  if (typeof name !== "string" || !TOKEN.test(name)) return `${at}: ${KEYWORD} is not a valid header name`;
  if (!TYPES.includes(node.type)) return `${at}: ${KEYWORD} is allowed only on a string, integer or boolean`;
  return undefined;
}

function toPlainText(value: unknown): string | undefined {
  const isPlain = typeof value === "string" || typeof value === "boolean" || Number.isSafeInteger(value);
  return isPlain ? String(value) : undefined;
}

/** Text that a header cannot hold unchanged is sent as base64. */
function encodeFieldValue(text: string): string {
  const isSafe = /^[\t\x20-\x7e]+$/.test(text) && text === text.trim() && !/^=\?base64\?.*\?=$/.test(text);
  return isSafe ? text : `=?base64?${Buffer.from(text, "utf8").toString("base64")}?=`;
}
