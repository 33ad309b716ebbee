import { hash } from "node:crypto";
import { setImmediate } from "node:timers/promises";
import { getErrorMessage } from "../../core/errors.ts";
import { isRecord, type JsonObject, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { SchemaChecker } from "../../core/schema-validator.ts";
import { WORK_LIMIT } from "../../core/work-budget.ts";
import type { ApiOperation, CompiledApi, SecurityScheme } from "./compiled-api.ts";
import { type ConversionBudget, convertArguments } from "./convert-schema.ts";
import { isToken, type MergedInput, mergeInput } from "./operation-input.ts";
import { hasDotSegment } from "./parameter-style.ts";
import {
  createDocumentError,
  dereference,
  findPart,
  type OpenApiObject,
  type ReadPart,
  readDocument,
} from "./read-document.ts";
import { createSampleArguments } from "./sample-arguments.ts";
import { cleanText } from "./schema-keywords.ts";
import { resolveServer } from "./server-address.ts";

const METHODS = ["get", "put", "post", "delete", "options", "head", "patch"] as const;
const OPERATION_LIMIT = 5_000;
const DESCRIPTION_CHARS = 1_000;
const PATH_CHARS = 2_000;
/** Real documents of thousands of operations need a tenth of this. */
const CONVERTED_PARTS = 20_000_000;
/** Operations that are compiled without a pause. */
const BATCH = 25;

export interface CompileOptions {
  /** Used for every operation instead of the servers of the document. */
  readonly server?: string | undefined;
  /** The address of the document, for servers that are relative to it. */
  readonly base?: string | undefined;
  /** Whether an operation is wanted, by its entry. */
  readonly isWanted?: (entry: string) => boolean;
  readonly readPart?: ReadPart | undefined;
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
  readonly signal?: AbortSignal;
}

export interface Compilation {
  readonly api: CompiledApi;
  /** Operations with schemas that were too large, and how many parts were cut. */
  readonly trimmed: readonly { readonly entry: string; readonly parts: number }[];
  readonly skipped: readonly { readonly operation: string; readonly why: string }[];
  /** References to other addresses and files. They are never read. */
  readonly unresolved: readonly string[];
  /** The whole document, for checks. */
  readonly document: OpenApiObject;
}

/** Throws `invalid_arguments` if the document cannot be used at all. */
export async function compileDocument(text: string, options: CompileOptions = {}): Promise<Compilation> {
  const { document, unresolved } = await readDocument(text, options.readPart);
  const found = listOperations(document);
  if (found.length === 0) throw createDocumentError("has no operations");
  const main = options.server ?? resolveServer(document.servers, options.base);
  const schemes = readSchemes(document);
  const skipped: { operation: string; why: string }[] = [];
  const trimmed: { entry: string; parts: number }[] = [];
  const operations: ApiOperation[] = [];
  const taken = new Set<string>();
  const budget = { left: CONVERTED_PARTS };
  for (const [index, each] of found.entries()) {
    if (index % BATCH === BATCH - 1) {
      options.onProgress?.({ done: index, total: found.length });
      await setImmediate();
      options.signal?.throwIfAborted();
    }
    const entry = takeEntry(each, taken);
    if (options.isWanted?.(entry) === false) continue;
    try {
      const server = options.server === undefined ? findOwnServer(each.servers, options.base) : undefined;
      const { operation, parts } = compileOperation({ document, schemes, budget }, entry, each);
      if (parts > 0) trimmed.push({ entry, parts });
      operations.push({ ...operation, ...(server === undefined || server === main ? {} : { server }) });
    } catch (thrown) {
      if (budget.left < 0) throw thrown;
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
    schemes: operations.some(({ security }) => security.flat().includes(AUTHORIZATION))
      ? { [AUTHORIZATION]: { kind: "key", in: "header", name: AUTHORIZATION }, ...schemes }
      : schemes,
    operations,
  };
  return { api, trimmed, skipped, unresolved, document };
}

/** The scheme of documents that only declare the header as a parameter. */
const AUTHORIZATION = "Authorization";

/** The address that an operation or its path names. */
function findOwnServer(servers: unknown, base: string | undefined): string | undefined {
  if (!Array.isArray(servers) || servers.length === 0) return undefined;
  const own = resolveServer(servers, base);
  if (own !== undefined) return own;
  throw createDocumentError("gives it a server of its own, which is no http address", "Give an address with --server.");
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
    if (!path.startsWith("/")) continue;
    const item = dereference(document, raw) ?? {};
    for (const method of METHODS) {
      const operation = Object.hasOwn(item, method) ? dereference(document, item[method]) : undefined;
      if (operation === undefined) continue;
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
      .slice(0, 150)
      .replace(/^_+|_+$/g, "");
  const plain = toName(id) || toName(`${method} ${path.replaceAll(/[^A-Za-z0-9.-]+/g, " ")}`) || method;
  let entry = plain;
  for (let count = 2; taken.has(entry); count++) entry = `${plain}_${count}`;
  taken.add(entry);
  return entry;
}

interface CompileParts {
  readonly document: OpenApiObject;
  readonly schemes: CompiledApi["schemes"];
  readonly budget: ConversionBudget;
}

function compileOperation({ document, schemes, budget }: CompileParts, entry: string, found: FoundOperation) {
  const { method, item, operation } = found;
  // A fragment only tells several operations with one path apart.
  const path = found.path.split("#", 1)[0] ?? "";
  checkPath(path);
  const declared = readSecurity(operation.security ?? document.security);
  const credentials = locateKeys(declared.flat(), schemes);
  const input = mergeInput(document, { path, method, item, operation, credentials: new Set(credentials.keys()) });
  // An operation can require a parameter that belongs to a scheme of another set.
  const further = input.requiredCredentials.flatMap((place) => credentials.get(place) ?? []);
  const security = declared.map((set) => [...new Set([...set, ...(set.length > 0 ? further : [])])]);
  // Without a security scheme, the header would be lost.
  if (security.every(({ length }) => length === 0) && input.authorization !== undefined)
    security.splice(0, security.length, [AUTHORIZATION], ...(input.authorization ? [] : [[]]));
  const { schema, trimmed } = convertArguments(document, input.source, budget);
  const example = findExample(schema);
  const compiled: ApiOperation = {
    entry,
    method: method.toUpperCase(),
    path,
    description: describeOperation(found, input),
    tags: listTags(operation),
    parameters: input.parameters,
    security,
    schema,
    ...(hasRedirect(operation) ? { redirects: true } : {}),
    ...omitUndefined({ body: input.body, accept: listAccepted(document, operation), example }),
  };
  return { operation: compiled, parts: trimmed };
}

/** The schemes with keys, by their parameters, as in `header x-api-key`. */
function locateKeys(names: readonly string[], schemes: CompiledApi["schemes"]): ReadonlyMap<string, string> {
  return new Map(
    names.flatMap((name) => {
      const scheme = Object.hasOwn(schemes, name) ? schemes[name] : undefined;
      if (scheme?.kind !== "key") return [];
      return [[`${scheme.in} ${scheme.in === "header" ? scheme.name.toLowerCase() : scheme.name}`, name] as const];
    }),
  );
}

function checkPath(path: string): void {
  if (path.length > PATH_CHARS) throw createDocumentError(`has a path with more than ${PATH_CHARS} characters`);
  const isSafe = path.startsWith("/") && !/[#\\\s\p{Cc}]/u.test(path) && !path.startsWith("//");
  if (!isSafe || hasDotSegment(path.split("?", 1)[0] ?? ""))
    throw createDocumentError(`has the path ${quoteName(path)}, which could lead elsewhere`);
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

const hasRedirect = ({ responses }: OpenApiObject) =>
  isRecord(responses) && Object.keys(responses).some((status) => /^3(?:0[12378]|XX)$/i.test(status));

function listAccepted(document: OpenApiObject, { responses }: OpenApiObject): string | undefined {
  const types = Object.entries(isRecord(responses) ? responses : {})
    .filter(([status]) => /^2|default/.test(status))
    .flatMap(([, response]) => Object.keys(getContent(dereference(document, response))));
  const sorted = [...new Set(types)]
    .filter((type) => /^[\w!#$&^.+*-]+\/[\w!#$&^.+*-]+(?:;[\x20-\x7e]*)?$/.test(type))
    .sort(byStreamLast);
  return sorted.length === 0 ? undefined : sorted.slice(0, 5).join(", ");
}

const byStreamLast = (a: string, b: string) => Number(a.includes("event-stream")) - Number(b.includes("event-stream"));
const getContent = (part: OpenApiObject | undefined) => (isRecord(part?.content) ? part.content : {});

function readSchemes(document: OpenApiObject): Readonly<Record<string, SecurityScheme>> {
  const declared = dereference(document, findPart(document, "#/components/securitySchemes")) ?? {};
  return Object.fromEntries(
    Object.entries(declared).flatMap(([name, raw]) => {
      const scheme = toScheme(dereference(document, raw) ?? {});
      return scheme === undefined || name === "__proto__" ? [] : [[name, scheme] as const];
    }),
  );
}

/** Schemes of HTTP that compute an answer for each request. */
const COMPUTED_SCHEMES = /^(?:digest|hoba|mutual|negotiate|ntlm|oauth|scram-|vapid|aws4)/;

function toScheme({ type, in: place, name, scheme }: OpenApiObject): SecurityScheme | undefined {
  if (type === "oauth2" || type === "openIdConnect") return { kind: "bearer" };
  if (type === "http") {
    const kind = String(scheme).toLowerCase();
    if (kind === "basic" || kind === "bearer") return { kind };
    return isToken(kind) && !COMPUTED_SCHEMES.test(kind) ? { kind: "bearer", prefix: String(scheme) } : undefined;
  }
  const isPlace = place === "header" || place === "query" || place === "cookie";
  const isKey = type === "apiKey" && isPlace && typeof name === "string" && (place === "query" || isToken(name));
  return isKey ? { kind: "key", in: place, name } : undefined;
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
