import { posix } from "node:path";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { clip, isLargerThan, isRecord } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";

export type OpenApiObject = Readonly<Record<string, unknown>>;

export const DOCUMENT_BYTES = 32 * 1024 * 1024;
const DOCUMENT_LIMITS = { nodes: 2_000_000, depth: 200 };
const FILE_LIMIT = 5_000;
const ALIAS_LIMIT = 5_000;
/** The key that holds the other files of a document. */
const FILES = "x-qm-files";

/** The text of a file beside the document. Undefined: it is not there, or lies outside of the document's folder. */
export type ReadPart = (path: string) => Promise<string | undefined>;

export interface OpenApiReading {
  readonly document: OpenApiObject;
  /** References to other addresses, and to files that could not be read. */
  readonly unresolved: readonly string[];
}

/** Parses JSON or YAML. Throws `invalid_arguments` for anything that is not a usable OpenAPI 3 document. */
export async function readDocument(text: string, readPart?: ReadPart): Promise<OpenApiReading> {
  const document = await parseText(text);
  if (!isRecord(document)) throw createDocumentError("is not an object");
  const version = document.openapi;
  if (typeof document.swagger === "string")
    throw createDocumentError(
      `is Swagger ${clip(document.swagger, 10)}`,
      "Convert it first, as with `npx swagger2openapi <file> -o openapi.json`, and import the result.",
    );
  if (typeof version !== "string" || !/^3\.\d/.test(version))
    throw createDocumentError("has no `openapi: 3.0` or `3.1`", "Use a document of OpenAPI 3.0 or 3.1.");
  if (!isRecord(document.paths)) throw createDocumentError("has no paths, so there is nothing to call");
  return includeFiles(document, text.length, readPart);
}

async function parseText(text: string): Promise<unknown> {
  if (text.length > DOCUMENT_BYTES) throw createDocumentError(`has more than ${DOCUMENT_BYTES / 2 ** 20} MiB`);
  const parsed = await parseJsonOrYaml(text);
  if (isLargerThan(parsed, DOCUMENT_LIMITS))
    throw createDocumentError(
      `has more than ${DOCUMENT_LIMITS.nodes} parts, or is nested more than ${DOCUMENT_LIMITS.depth} deep, or has an alias to itself`,
    );
  if (text.includes("<<")) applyMergeKeys(parsed, new Set());
  return parsed;
}

async function parseJsonOrYaml(text: string): Promise<unknown> {
  try {
    if (/^\s*\{/.test(text)) return JSON.parse(text);
    const { parseDocument, visit } = await import("yaml");
    // Comparing all keys would take quadratic time, and merging keys takes place before parts are counted.
    const document = parseDocument(text, { uniqueKeys: false, logLevel: "silent" });
    if (document.errors[0] !== undefined) throw document.errors[0];
    // Each alias is looked for among all others.
    let aliases = 0;
    visit(document, { Alias: () => (++aliases > ALIAS_LIMIT ? visit.BREAK : undefined) });
    if (aliases > ALIAS_LIMIT) throw new Error(`it has more than ${ALIAS_LIMIT} aliases`);
    // Aliases are shared, not copied; the count of parts limits them.
    return document.toJS({ maxAliasCount: -1 });
  } catch (thrown) {
    throw createDocumentError(`is not JSON or YAML: ${clip(getErrorMessage(thrown), 200)}`);
  }
}

/** Fills in what `<<` names. Each of these keys is one of the counted parts, so the work has a limit too. */
function applyMergeKeys(part: unknown, seen: Set<unknown>): void {
  if (typeof part !== "object" || part === null || seen.has(part)) return;
  seen.add(part);
  for (const inner of Object.values(part)) applyMergeKeys(inner, seen);
  const sources = Object.hasOwn(part, "<<") ? [(part as OpenApiObject)["<<"]].flat() : [];
  if (sources.length === 0 || !sources.every(isRecord)) return;
  delete (part as Record<string, unknown>)["<<"];
  for (const [key, value] of sources.flatMap(Object.entries))
    if (!Object.hasOwn(part, key))
      Object.defineProperty(part, key, { value, configurable: true, enumerable: true, writable: true });
}

/** Adds the files that a document refers to, and lets the references name the added parts. Nothing else is read. */
async function includeFiles(document: OpenApiObject, size: number, readPart?: ReadPart): Promise<OpenApiReading> {
  const files: Record<string, unknown> = {};
  const unresolved = new Set<string>();
  const seen = new Set<unknown>();
  const open: { readonly part: unknown; readonly file?: string }[] = [{ part: document }];
  let total = size;

  async function load(file: string): Promise<boolean> {
    if (Object.hasOwn(files, file)) return true;
    const isInside = !/^(?:\/|\.\.(?:\/|$))/.test(file) && /\.(?:json|ya?ml)$/i.test(file) && file !== "__proto__";
    const text = isInside ? await readPart?.(file) : undefined;
    if (text === undefined) return false;
    total += text.length;
    if (total > DOCUMENT_BYTES || Object.keys(files).length >= FILE_LIMIT)
      throw createDocumentError(`and its files have more than ${DOCUMENT_BYTES / 2 ** 20} MiB or ${FILE_LIMIT} files`);
    files[file] = await parseText(text);
    open.push({ part: files[file], file });
    return true;
  }

  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { part, file } = next;
    if (typeof part !== "object" || part === null || seen.has(part)) continue;
    seen.add(part);
    for (const inner of Object.values(part)) open.push({ part: inner, ...(file === undefined ? {} : { file }) });
    const { $ref } = part as OpenApiObject;
    if (typeof $ref !== "string") continue;
    const [path = "", pointer = ""] = $ref.split("#", 2);
    if (path === "" && file === undefined) continue;
    const isAddress = /^(?:[A-Za-z][A-Za-z0-9+.-]*:|\/\/)/.test(path);
    const target = path === "" ? file : posix.normalize(posix.join(posix.dirname(file ?? ""), decodePart(path)));
    if (!isAddress && target !== undefined && (await load(target)))
      (part as { $ref: string }).$ref = `#/${FILES}/${escapePointer(target)}${pointer}`;
    else unresolved.add($ref);
  }
  const complete = Object.keys(files).length === 0 ? document : { ...document, [FILES]: files };
  return { document: complete, unresolved: [...unresolved] };
}

/** The part that a `$ref` names, following further ones. Undefined: it names nothing, or itself. */
export function dereference(document: OpenApiObject, part: unknown): OpenApiObject | undefined {
  let found = part;
  for (let hops = 0; hops < 32; hops++) {
    if (!isRecord(found)) return undefined;
    if (typeof found.$ref !== "string") return found;
    found = findPart(document, found.$ref);
  }
  return undefined;
}

/** As `dereference`. Throws `invalid_arguments` for a reference that leads nowhere. */
export function requirePart(document: OpenApiObject, part: unknown): OpenApiObject | undefined {
  const found = dereference(document, part);
  if (found === undefined && isRecord(part))
    throw createDocumentError(`refers to ${quoteName(String(part.$ref))}, which is not in it`);
  return found;
}

export function findPart(document: OpenApiObject, reference: string, hops = 0): unknown {
  let found: unknown = document;
  if (reference === "#") return found;
  if (!reference.startsWith("#/") || hops > 8) return undefined;
  for (const part of reference.slice(2).split("/")) {
    const key = decodePart(part).replace(/~1/g, "/").replace(/~0/g, "~");
    // A whole map, such as that of all schemas, can be a reference to a file.
    if (isRecord(found) && !Object.hasOwn(found, key) && typeof found.$ref === "string")
      found = findPart(document, found.$ref, hops + 1);
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as OpenApiObject)[key];
  }
  return found;
}

const escapePointer = (key: string) =>
  key.replaceAll("%", "%25").replaceAll("~", "~0").replaceAll("/", "~1").replaceAll("#", "%23");

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function createDocumentError(
  problem: string,
  hint = "Check that it is an OpenAPI 3.0 or 3.1 document.",
): QmError {
  return new QmError("invalid_arguments", `the document ${problem}`, { hint });
}
