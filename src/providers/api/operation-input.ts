import { isRecord, omitUndefined } from "../../core/json.ts";
import {
  type ApiBody,
  type ApiParameter,
  isTextType,
  type ParameterPlace,
  type ParameterStyle,
  type PartEncoding,
} from "./compiled-api.ts";
import type { SchemaSource } from "./convert-schema.ts";
import { isHeaderValue } from "./parameter-style.ts";
import { createDocumentError, dereference, type OpenApiObject, requirePart } from "./read-document.ts";
import { isFileSchema, listRequired, SIBLINGS } from "./schema-keywords.ts";

export interface MergedInput {
  readonly parameters: readonly ApiParameter[];
  readonly body?: ApiBody;
  readonly source: SchemaSource;
  /** Those of the credentials' parameters that the operation requires. */
  readonly requiredCredentials: readonly string[];
  /** Whether the header `Authorization`, if it is declared as a parameter, is required. */
  readonly authorization: boolean | undefined;
}

type Property = SchemaSource["properties"][number];

interface OperationPlace {
  readonly path: string;
  readonly method: string;
  readonly item: OpenApiObject;
  readonly operation: OpenApiObject;
  /** Parameters that credentials fill in, as `header x-api-key`. */
  readonly credentials: ReadonlySet<string>;
}

/** The parameters and the body as the arguments of one action. */
export function mergeInput(document: OpenApiObject, place: OperationPlace): MergedInput {
  const { listed, ...credentials } = listParameters(document, place);
  return { ...mergeParts(document, place, listed), ...credentials };
}

function mergeParts(document: OpenApiObject, place: OperationPlace, listed: Iterable<OpenApiObject>) {
  const taken = new Set<string>();
  const properties: Property[] = [];
  const required: string[] = [];
  const parameters: ApiParameter[] = [];
  for (const raw of listed) {
    const place = raw.in as ParameterPlace;
    const name = raw.name as string;
    const argument = takeArgument(name, place, taken);
    const content = isRecord(raw.content)
      ? Object.entries(raw.content).find(([, media]) => isRecord(media))
      : undefined;
    const isJson = content?.[0].toLowerCase().includes("json") === true;
    const style = isJson ? "json" : readStyle(raw.style, place);
    const explode = typeof raw.explode === "boolean" ? raw.explode : style === "form" || style === "deepObject";
    const reserved = raw.allowReserved === true && place === "query" ? { allowReserved: true } : {};
    parameters.push({ argument, name, in: place, style, explode, ...reserved });
    const description = typeof raw.description === "string" ? raw.description : undefined;
    const schema = (content?.[1] as OpenApiObject | undefined)?.schema ?? raw.schema ?? {};
    properties.push({ argument, schema, ...omitUndefined({ description }) });
    if (raw.required === true || place === "path") required.push(argument);
  }
  // OpenAPI gives such a body no meaning, and HTTP clients do not send it.
  const body = /^(?:get|head)$/.test(place.method) ? undefined : readBody(document, place.operation.requestBody);
  if (body === undefined) return { parameters, source: { properties, required, takesOthers: false, isForm: false } };
  const { mediaType, media, isRequired, description } = body;
  const isForm = mediaType.startsWith("multipart/");
  const common = { mediaType, required: isRequired, ...omitUndefined({ encoding: readEncoding(media.encoding) }) };
  const parts = isStructured(mediaType) ? flattenObject(document, media.schema, 0, { left: FLATTEN_LIMIT }) : undefined;
  const names = [...(parts?.properties.keys() ?? [])];
  if (parts === undefined || names.some((name) => taken.has(toArgument(name)))) {
    const argument = taken.has("body") ? "request_body" : "body";
    properties.push({
      argument,
      schema: toBodySchema(mediaType, media.schema),
      isBody: true,
      ...omitUndefined({ description }),
    });
    if (isRequired) required.push(argument);
    return {
      parameters,
      body: { ...common, ...(argument === "body" ? {} : { argument }) },
      source: { properties, required, takesOthers: false, isForm },
    };
  }
  const fields = names.map((name) => [takeArgument(name, "body", taken), name] as const);
  for (const [argument, name] of fields) {
    properties.push({ argument, schema: parts.properties.get(name) ?? {}, isField: true });
    if (isRequired && parts.required.has(name)) required.push(argument);
  }
  const isFile = (name: string) => {
    const schema = dereference(document, parts.properties.get(name));
    return isFileSchema(document, schema) || isFileSchema(document, schema?.items);
  };
  const files = isForm ? { files: names.filter(isFile) } : {};
  const takesOthers = parts.takesOthers;
  return {
    parameters,
    body: { ...common, fields: Object.fromEntries(fields), ...files, ...(takesOthers ? { takesOthers } : {}) },
    source: { properties, required, takesOthers, isForm },
  };
}

/** Headers that belong to the connection or to the credentials, or that name another method or path. */
const IGNORED_HEADERS = new Set([
  ...["accept", "content-type", "authorization", "cookie", "proxy-authorization"],
  ...["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "expect"],
  ...["keep-alive", "proxy-connection"],
  ...["x-http-method", "x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url"],
]);

/** Those of the operation override those of the path with the same name and place. */
function listParameters(document: OpenApiObject, { path, item, operation, credentials }: OperationPlace) {
  const found = new Map<string, OpenApiObject>();
  const requiredCredentials: string[] = [];
  let authorization: boolean | undefined;
  for (const raw of [item.parameters, operation.parameters].flatMap((each) => (Array.isArray(each) ? each : []))) {
    const parameter = requirePart(document, raw);
    const { name, in: place } = parameter ?? {};
    if (parameter === undefined || typeof name !== "string" || name === "") continue;
    if (!["path", "query", "header", "cookie"].includes(String(place))) continue;
    const key = `${place} ${place === "header" ? name.toLowerCase() : name}`;
    if (key === "header authorization") authorization = parameter.required === true;
    if (place === "header" && (IGNORED_HEADERS.has(name.toLowerCase()) || !isToken(name))) continue;
    if (credentials.has(key) && parameter.required === true) requiredCredentials.push(key);
    if (credentials.has(key) || (place === "path" && !path.includes(`{${name}}`))) continue;
    found.set(key, parameter);
  }
  const names = [...path.matchAll(/\{([^{}]*)\}/g)].map(([, name = ""]) => name);
  if (names.includes("")) throw createDocumentError("has a path with {} without a name");
  const isOfQuery = (name: string) => found.has(`query ${name}`) && !path.split("?", 1)[0]?.includes(`{${name}}`);
  for (const name of names)
    if (!found.has(`path ${name}`) && !isOfQuery(name))
      found.set(`path ${name}`, { name, in: "path", schema: { type: "string" } });
  return { listed: found.values(), requiredCredentials, authorization };
}

/** Whether HTTP allows a text as the name of a header. */
export const isToken = (name: string): boolean => /^[\w!#$%&'*+.^`|~-]+$/.test(name);

const STYLES: Readonly<Record<ParameterPlace, readonly ParameterStyle[]>> = {
  path: ["simple", "label", "matrix"],
  query: ["form", "spaceDelimited", "pipeDelimited", "deepObject"],
  header: ["simple"],
  cookie: ["form"],
};

function readStyle(style: unknown, place: ParameterPlace): ParameterStyle {
  return STYLES[place].find((each) => each === style) ?? STYLES[place][0] ?? "simple";
}

/** A name that every model library takes for a field. */
function toArgument(name: string): string {
  const spelled = name
    .replaceAll("<", "_lt")
    .replaceAll(">", "_gt")
    .replace(/[^A-Za-z0-9_.-]+/g, "_");
  const plain = spelled.slice(0, 60).replace(/^_+(?=.)|(?<=.)_+$/g, "") || "value";
  const isKept = /^[A-Za-z0-9_.-]{1,64}$/.test(name) && !["__proto__", "constructor", "prototype"].includes(name);
  return isKept ? name : plain === name ? `${plain}_` : plain === "constructor" ? "constructor_" : plain;
}

function takeArgument(name: string, place: string, taken: Set<string>): string {
  const plain = toArgument(name);
  let argument = taken.has(plain) ? `${plain}_${place}` : plain;
  for (let count = 2; taken.has(argument); count++) argument = `${plain}_${count}`;
  taken.add(argument);
  return argument;
}

const isStructured = (mediaType: string) => /json|x-www-form-urlencoded|multipart\//.test(mediaType);

/** In the order in which a type is chosen when an operation takes several. */
const PREFERRED = [/^application\/json/, /json/, /^multipart\/form-data/, /x-www-form-urlencoded/, /^text\/plain/, /^/];

function readBody(document: OpenApiObject, raw: unknown) {
  const body = requirePart(document, raw);
  const content = isRecord(body?.content) ? body.content : {};
  const types = Object.keys(content).filter((type) => isRecord(content[type]));
  const declared = PREFERRED.map((form) => types.find((type) => form.test(type.toLowerCase()))).find(
    (type) => type !== undefined,
  );
  if (body === undefined || declared === undefined || !isHeaderValue(declared)) return undefined;
  const description = typeof body.description === "string" ? body.description : undefined;
  const media = content[declared] as OpenApiObject;
  const mediaType = chooseType(declared, dereference(document, media.schema));
  return { mediaType, media, isRequired: body.required === true, description };
}

/** The type in lower case with its parameters as they are. A range of types cannot be sent. */
function chooseType(declared: string, schema: OpenApiObject | undefined): string {
  const [type = "", ...parameters] = declared.split(";");
  const plain = type.trim().toLowerCase();
  if (plain !== "" && !plain.includes("*")) return [plain, ...parameters].join(";");
  if (plain.startsWith("text/")) return "text/plain";
  const isData = schema?.type === "object" || schema?.type === "array" || isRecord(schema?.properties);
  return isData ? "application/json" : "application/octet-stream";
}

const toBodySchema = (mediaType: string, schema: unknown): unknown => {
  if (isStructured(mediaType)) return schema ?? {};
  return { type: "string", description: isTextType(mediaType) ? "The body as text." : "The body as base64." };
};

function readEncoding(raw: unknown): Readonly<Record<string, PartEncoding>> | undefined {
  if (!isRecord(raw)) return undefined;
  const parts = Object.entries(raw).flatMap(([name, part]) => {
    if (!isRecord(part) || name === "__proto__") return [];
    const contentType = typeof part.contentType === "string" ? part.contentType : undefined;
    const explode = typeof part.explode === "boolean" ? part.explode : undefined;
    const allowReserved = part.allowReserved === true ? true : undefined;
    // Naming one of these asks for the style of a query parameter, whose default is `form`.
    const isStyled = explode !== undefined || allowReserved !== undefined;
    const style = STYLES.query.find((each) => each === part.style) ?? (isStyled ? "form" : undefined);
    const own = explode ?? (style === undefined ? undefined : style === "form" || style === "deepObject");
    return [[name, omitUndefined({ contentType, style, explode: own, allowReserved })] as const];
  });
  return parts.length === 0 ? undefined : Object.fromEntries(parts);
}

interface FlatObject {
  readonly properties: Map<string, unknown>;
  readonly required: Set<string>;
  readonly takesOthers: boolean;
}

/** Keywords beside a reference count since OpenAPI 3.1. */
function mergeSiblings(document: OpenApiObject, raw: unknown): OpenApiObject | undefined {
  const isMore = isRecord(raw) && typeof raw.$ref === "string" && Object.keys(raw).some((key) => SIBLINGS.has(key));
  if (!isMore || String(document.openapi).startsWith("3.0")) return dereference(document, raw);
  const { $ref, allOf, ...rest } = raw;
  return { ...rest, allOf: [{ $ref }, ...(Array.isArray(allOf) ? allOf : [])] };
}

/** A hostile document can name the same parts again and again. */
const FLATTEN_LIMIT = 500;

/** The fields of an object, with those of `allOf`. Undefined: it is no object, has variants, or any field. */
function flattenObject(
  document: OpenApiObject,
  raw: unknown,
  depth: number,
  work: { left: number },
): FlatObject | undefined {
  const schema = mergeSiblings(document, raw);
  if (schema === undefined || depth > 8 || --work.left < 0 || schema.nullable === true) return undefined;
  if (Array.isArray(schema.anyOf) || Array.isArray(schema.oneOf) || schema.not !== undefined) return undefined;
  const [type, ...others] = Array.isArray(schema.type) ? schema.type : [schema.type];
  if ((type !== undefined && type !== "object") || others.length > 0) return undefined;
  const own = isRecord(schema.properties) ? Object.entries(schema.properties) : [];
  const kept = own.filter(([name, part]) => name !== "__proto__" && dereference(document, part)?.readOnly !== true);
  const properties = new Map<string, unknown>(kept);
  const required = new Set(listRequired(document, schema));
  const further = schema.additionalProperties;
  let takesOthers = further === true || (isRecord(further) && own.length > 0);
  for (const part of Array.isArray(schema.allOf) ? schema.allOf : []) {
    const inner = flattenObject(document, part, depth + 1, work);
    if (inner === undefined) return undefined;
    for (const [name, value] of inner.properties) if (!properties.has(name)) properties.set(name, value);
    for (const name of inner.required) required.add(name);
    takesOthers ||= inner.takesOthers;
  }
  if (depth > 0) return { properties, required, takesOthers };
  if (properties.size === 0) return undefined;
  for (const name of required) if (!properties.has(name)) required.delete(name);
  return { properties, required, takesOthers };
}
