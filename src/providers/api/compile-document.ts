import { hash } from "node:crypto";
import { getErrorMessage } from "../../core/errors.ts";
import { isRecord, type JsonObject, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { SchemaChecker } from "../../core/schema-validator.ts";
import { WORK_LIMIT } from "../../core/work-budget.ts";
import type { ApiOperation, CompiledApi, SecurityScheme } from "./compiled-api.ts";
import { cleanText, convertArguments } from "./convert-schema.ts";
import { type MergedInput, mergeInput } from "./operation-input.ts";
import { createDocumentError, dereference, type OpenApiObject, readDocument } from "./read-document.ts";
import { createSampleArguments } from "./sample-arguments.ts";
import { resolveServer } from "./server-address.ts";

const METHODS = ["get", "put", "post", "delete", "options", "head", "patch"] as const;
const OPERATION_LIMIT = 5_000;
const DESCRIPTION_CHARS = 1_000;

export interface CompileOptions {
  /** Used for every operation instead of the servers of the document. */
  readonly server?: string | undefined;
  /** The address of the document, for servers that are relative to it. */
  readonly base?: string | undefined;
  /** Whether an operation is wanted, by its entry. */
  readonly isWanted?: (entry: string) => boolean;
}

export interface Compilation {
  readonly api: CompiledApi;
  /** Operations with schemas that were too large, and how many parts were cut. */
  readonly trimmed: readonly { readonly entry: string; readonly parts: number }[];
  readonly skipped: readonly { readonly operation: string; readonly why: string }[];
}

/** Throws `invalid_arguments` if the document cannot be used at all. */
export async function compileDocument(text: string, options: CompileOptions = {}): Promise<Compilation> {
  const document = await readDocument(text);
  const found = listOperations(document);
  if (found.length === 0) throw createDocumentError("has no operations");
  const main = options.server ?? resolveServer(document.servers, options.base);
  const schemes = readSchemes(document);
  const skipped: { operation: string; why: string }[] = [];
  const trimmed: { entry: string; parts: number }[] = [];
  const operations: ApiOperation[] = [];
  const taken = new Set<string>();
  for (const each of found) {
    const entry = takeEntry(each, taken);
    if (options.isWanted?.(entry) === false) continue;
    const server = options.server === undefined ? resolveServer(each.servers, options.base) : undefined;
    try {
      const { operation, parts } = compileOperation(document, entry, each);
      if (parts > 0) trimmed.push({ entry, parts });
      operations.push({ ...operation, ...(server === undefined || server === main ? {} : { server }) });
    } catch (thrown) {
      skipped.push({ operation: `${each.method.toUpperCase()} ${each.path}`, why: getErrorMessage(thrown) });
    }
  }
  const info = isRecord(document.info) ? document.info : {};
  const api: CompiledApi = {
    format: 1,
    title: cleanText(typeof info.title === "string" ? info.title : "", 120),
    version: cleanText(typeof info.version === "string" ? info.version : "", 40),
    document: hash("sha256", text, "hex"),
    ...omitUndefined({ server: main }),
    schemes,
    operations,
  };
  return { api, trimmed, skipped };
}

interface FoundOperation {
  readonly path: string;
  readonly method: (typeof METHODS)[number];
  readonly item: OpenApiObject;
  readonly operation: OpenApiObject;
  readonly servers: unknown;
}

function listOperations(document: OpenApiObject): readonly FoundOperation[] {
  const found: FoundOperation[] = [];
  for (const [path, raw] of Object.entries(document.paths as OpenApiObject)) {
    const item = dereference(document, raw) ?? {};
    for (const method of METHODS) {
      const operation = Object.hasOwn(item, method) ? item[method] : undefined;
      if (!isRecord(operation)) continue;
      found.push({ path, method, item, operation, servers: operation.servers ?? item.servers });
      if (found.length > OPERATION_LIMIT)
        throw createDocumentError(`has more than ${OPERATION_LIMIT} operations`, "Split it into several documents.");
    }
  }
  return found;
}

/** The operation's id, or its method and path, as a unique part of a name. */
function takeEntry({ path, method, operation }: FoundOperation, taken: Set<string>): string {
  const id = typeof operation.operationId === "string" ? operation.operationId : "";
  const toName = (text: string) =>
    text
      .replace(/[^A-Za-z0-9_.-]+/g, "_")
      .replace(/^_+|_+$/g, "")
      .slice(0, 150);
  const plain = toName(id) || toName(`${method} ${path.replaceAll(/[^A-Za-z0-9.-]+/g, " ")}`) || method;
  let entry = plain;
  for (let count = 2; taken.has(entry); count++) entry = `${plain}_${count}`;
  taken.add(entry);
  return entry;
}

function compileOperation(document: OpenApiObject, entry: string, found: FoundOperation) {
  const { path, method, item, operation } = found;
  checkPath(path);
  const input = mergeInput(document, { path, item, operation });
  const { schema, trimmed } = convertArguments(document, input.source);
  const example = findExample(schema);
  const compiled: ApiOperation = {
    entry,
    method: method.toUpperCase(),
    path,
    description: describeOperation(found, input),
    tags: listTags(operation),
    parameters: input.parameters,
    security: readSecurity(operation.security ?? document.security),
    schema,
    ...omitUndefined({ body: input.body, accept: listAccepted(document, operation), example }),
  };
  return { operation: compiled, parts: trimmed };
}

function checkPath(path: string): void {
  const isSafe = path.startsWith("/") && !/[#\\\s\p{Cc}]/u.test(path) && !path.startsWith("//");
  const segments = path.split("?", 1)[0]?.split("/") ?? [];
  const isDotted = segments.some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment));
  if (!isSafe || isDotted) throw createDocumentError(`has the path ${quoteName(path)}, which could lead elsewhere`);
}

function describeOperation({ path, method, operation }: FoundOperation, { body }: MergedInput): string {
  const [summary, description] = [operation.summary, operation.description].map((text) =>
    typeof text === "string" ? cleanText(text, DESCRIPTION_CHARS) : "",
  );
  const first = summary || description || `${method.toUpperCase()} ${path}`;
  const ended = /[.!?]$/.test(first) ? first : `${first}.`;
  const rest = summary && description && !description.startsWith(summary) ? ` ${description}` : "";
  const deprecated = operation.deprecated === true ? " Deprecated." : "";
  const sent = body === undefined || /json|form/.test(body.mediaType) ? "" : ` The body is ${body.mediaType}.`;
  return `${ended}${rest}${deprecated}${sent}`;
}

function listTags({ tags, deprecated }: OpenApiObject): readonly string[] {
  const named = Array.isArray(tags) ? tags.filter((tag) => typeof tag === "string") : [];
  const slugs = named.map((tag) =>
    tag
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .replace(/^-+|-+$/g, "")
      .slice(0, 60),
  );
  return [...new Set([...slugs.filter((slug) => slug !== ""), ...(deprecated === true ? ["deprecated"] : [])])];
}

function listAccepted(document: OpenApiObject, { responses }: OpenApiObject): string | undefined {
  const types = Object.entries(isRecord(responses) ? responses : {})
    .filter(([status]) => /^2|default/.test(status))
    .flatMap(([, response]) => Object.keys(getContent(dereference(document, response))));
  const sorted = [...new Set(types)].filter((type) => /^[\w!#$&^.+*-]+\/[\w!#$&^.+*-]+/.test(type)).sort(byStreamLast);
  return sorted.length === 0 ? undefined : sorted.slice(0, 5).join(", ");
}

const byStreamLast = (a: string, b: string) => Number(a.includes("event-stream")) - Number(b.includes("event-stream"));
const getContent = (part: OpenApiObject | undefined) => (isRecord(part?.content) ? part.content : {});

function readSchemes(document: OpenApiObject): Readonly<Record<string, SecurityScheme>> {
  const { components } = document;
  const declared = isRecord(components) && isRecord(components.securitySchemes) ? components.securitySchemes : {};
  return Object.fromEntries(
    Object.entries(declared).flatMap(([name, raw]) => {
      const scheme = toScheme(dereference(document, raw) ?? {});
      return scheme === undefined || name === "__proto__" ? [] : [[name, scheme] as const];
    }),
  );
}

function toScheme({ type, in: place, name, scheme }: OpenApiObject): SecurityScheme | undefined {
  if (type === "oauth2" || type === "openIdConnect") return { kind: "bearer" };
  if (type === "http") {
    const kind = String(scheme).toLowerCase();
    return kind === "basic" || kind === "bearer" ? { kind } : undefined;
  }
  const isPlace = place === "header" || place === "query" || place === "cookie";
  return type === "apiKey" && isPlace && typeof name === "string" ? { kind: "key", in: place, name } : undefined;
}

function readSecurity(raw: unknown): readonly (readonly string[])[] {
  return Array.isArray(raw) ? raw.filter(isRecord).map((each) => Object.keys(each)) : [];
}

/** The sample if it fits the schema: a wrong example misleads. */
function findExample(schema: ApiOperation["schema"]): JsonObject | undefined {
  const example = createSampleArguments(schema);
  try {
    const problems = new SchemaChecker(schema).check(structuredClone(example), { left: WORK_LIMIT }, false);
    return problems.length === 0 && JSON.stringify(example).length < 4_000 ? example : undefined;
  } catch {
    return undefined;
  }
}
