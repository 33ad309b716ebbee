import { getErrorMessage, QmError } from "../../core/errors.ts";
import { clip, isLargerThan, isRecord } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";

export type OpenApiObject = Readonly<Record<string, unknown>>;

export const DOCUMENT_BYTES = 32 * 1024 * 1024;
const DOCUMENT_LIMITS = { nodes: 2_000_000, depth: 200 };

/** Parses JSON or YAML. Throws `invalid_arguments` for anything that is not a usable OpenAPI 3 document. */
export async function readDocument(text: string): Promise<OpenApiObject> {
  if (text.length > DOCUMENT_BYTES) throw createDocumentError(`has more than ${DOCUMENT_BYTES / 2 ** 20} MiB`);
  const document = await parseText(text);
  if (!isRecord(document)) throw createDocumentError("is not an object");
  if (isLargerThan(document, DOCUMENT_LIMITS))
    throw createDocumentError(
      `has more than ${DOCUMENT_LIMITS.nodes} parts, or is nested more than ${DOCUMENT_LIMITS.depth} deep, or has an alias to itself`,
    );
  const version = document.openapi;
  if (typeof document.swagger === "string")
    throw createDocumentError(`is Swagger ${clip(document.swagger, 10)}`, "Convert it to OpenAPI 3 first.");
  if (typeof version !== "string" || !/^3\.\d/.test(version))
    throw createDocumentError("has no `openapi: 3.0` or `3.1`", "Use a document of OpenAPI 3.0 or 3.1.");
  if (!isRecord(document.paths)) throw createDocumentError("has no paths");
  refuseExternalReferences(document);
  return document;
}

async function parseText(text: string): Promise<unknown> {
  try {
    if (/^\s*\{/.test(text)) return JSON.parse(text);
    const { parse } = await import("yaml");
    // An alias stands for the whole part it names, so many aliases could fill the memory.
    return parse(text, { maxAliasCount: 100, logLevel: "silent" });
  } catch (thrown) {
    throw createDocumentError(`is not JSON or YAML: ${clip(getErrorMessage(thrown), 200)}`);
  }
}

/** No other file or address is read: the document alone says what was imported. */
function refuseExternalReferences(document: OpenApiObject): void {
  const open: unknown[] = [document];
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    if (typeof part !== "object" || part === null) continue;
    const { $ref } = part as OpenApiObject;
    if (typeof $ref === "string" && !$ref.startsWith("#"))
      throw createDocumentError(
        `refers to ${quoteName($ref)} outside of it`,
        "Bundle it into one file first. Other files and addresses are never read.",
      );
    for (const inner of Object.values(part)) if (typeof inner === "object" && inner !== null) open.push(inner);
  }
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

export function findPart(document: OpenApiObject, reference: string): unknown {
  let found: unknown = document;
  if (reference === "#") return found;
  if (!reference.startsWith("#/")) return undefined;
  for (const part of reference.slice(2).split("/")) {
    const key = decodePart(part).replace(/~1/g, "/").replace(/~0/g, "~");
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as OpenApiObject)[key];
  }
  return found;
}

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
